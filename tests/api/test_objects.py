"""What Python users hold: data, memories, runs, evaluations and comparisons."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import longmemeval as lme
from longmemeval.cli.verb_table import GROUPS
from longmemeval.errors import HarnessError
from longmemeval.memory.external.serving.records import Session
from longmemeval.results.manifest import read_manifest
from longmemeval.results.selection import Selection, select
from tests.pipeline.helpers import MODEL, colour_record
from tests.support import ROOT, tree

OFFLINE = "offline/lexical"


class Notes:
    """Keeps everything, recalls the newest."""

    def __init__(self, prefix: str = "") -> None:
        self.kept: list[str] = []
        self.prefix = prefix

    def add(self, session: Session) -> None:
        self.kept += [self.prefix + message.content for message in session.messages]

    def search(self, query: str, *, date: object, limit: int) -> list[str]:
        return self.kept[-limit:]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def data() -> lme.Data:
    return lme.load_dataset([colour_record(number) for number in range(4)], name="colours")


def test_a_verb_shares_its_name_with_no_package() -> None:
    taken = {path.name for path in (ROOT / "longmemeval").iterdir() if path.is_dir()}
    taken |= {path.stem for path in (ROOT / "longmemeval").glob("*.py")}
    assert {"report", "memory", "errors"} <= taken
    assert set(lme.__all__) & taken == set()
    assert all(hasattr(lme, name) for name in lme.__all__)


FUNCTIONS = {
    **{"demo": "demo", "datasets": "load_dataset", "prepare": "prepare", "run": "run", "evaluate": "evaluate"},
    **{"runs": "runs", "status": "runs", "inspect": "inspect", "facts": "Engram", "retrieval": "retrieve"},
    **{
        "compare": "compare",
        "report": "write_report",
        "sweep": "sweep",
        "claims": "try_claim",
        "verify": "verify",
        "sign": "sign",
    },
    **{"judge": "check_judge", "import": "import_answers", "export": "export", "merge": "merge"},
    **{"board": "make_board", "memory": "Memory", "probe": "probe"},
}
NOT_IN_PYTHON = {"plugins", "view"}


def test_every_verb_of_the_command_line_is_there() -> None:
    assert {verb for verbs in GROUPS.values() for verb in verbs} == FUNCTIONS.keys() | NOT_IN_PYTHON
    assert set(FUNCTIONS.values()) <= set(lme.__all__)


@pytest.mark.slow
def test_a_run_is_verified_inspected_and_exported(data: lme.Data, folder: Path) -> None:
    run = lme.run(data, "bm25", MODEL)
    graded = run.evaluate(OFFLINE)
    assert lme.verify(graded).problems == ()
    assert len(lme.inspect(data, "q0", "bm25").recalled) == 1
    assert (lme.export(run, output=folder / "out") / f"{run.id}.csv").read_text().count("\n") >= 4
    official = lme.export(graded, "official", output=folder / "theirs") / f"{run.id}.jsonl"
    again = lme.import_answers(official, data, name="theirs").evaluate(OFFLINE)
    assert (again.id, again.score) == ("theirs", graded.score)
    call: Callable[..., object] = lme.verify
    with pytest.raises(HarnessError, match="Did you mean 'run'"):
        call(runn=run)


def test_calls_in_several_threads_and_loops_wait_for_each_other(data: lme.Data) -> None:
    async def both() -> list[lme.Run]:
        return list(await asyncio.gather(*(lme.arun(data, memory, MODEL) for memory in ("bm25", "last-k"))))

    with ThreadPoolExecutor(4) as threads:
        same = [threads.submit(lme.run, data, "bm25", MODEL) for _ in range(2)]
        loops = [threads.submit(asyncio.run, both()) for _ in range(2)]
        runs = [*(one.result() for one in same), *(run for loop in loops for run in loop.result())]
    assert [len(run.answers) for run in runs] == [4] * 6
    assert len({run.id for run in runs}) == 2


def test_a_model_that_cannot_be_asked_is_refused_before_anything_is_prepared(
    data: lme.Data, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for model in ("openai/gpt-4o", "offline/extractiv", "offline/scripted:none.json"):
        with pytest.raises(HarnessError):
            lme.run(data, "bm25", model)
    assert not (folder / "prepared-data").exists()
    assert not (folder / "results").exists()


def test_fixtures_in_a_folder_that_is_read_only_are_run_from(
    data: lme.Data, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lme.prepare(data, "hybrid", "bm25")
    shutil.rmtree(folder / "prepared-data" / ".cache", ignore_errors=True)
    before, access = tree(folder / "prepared-data"), os.access

    def refused(path: str, mode: int) -> bool:
        # Root, whom no mode of a file keeps from writing, runs tests too.
        return access(path, mode) and not (mode == os.W_OK and "prepared-data" in Path(path).parts)

    monkeypatch.setattr(os, "access", refused)
    assert lme.run(data, "hybrid", MODEL).evaluate(OFFLINE).score is not None
    lme.inspect(data, "q0", "bm25")
    lme.retrieve(data, "hybrid")
    with pytest.raises(HarnessError, match="is read-only, and 4 of 4 haystacks are not prepared"):
        lme.prepare(data, "engram-lean")
    assert tree(folder / "prepared-data") == before
    assert not (folder / "prepared-data" / ".cache").exists()


def test_rows_of_a_data_frame_are_records() -> None:
    numpy = pytest.importorskip("numpy")
    record = colour_record(0) | {"answer": numpy.int64(3)}
    record["haystack_sessions"] = numpy.array(record["haystack_sessions"], dtype=object)
    found = lme.load_dataset([record]).dataset
    assert found.gold("q0").answer == 3
    with pytest.raises(HarnessError, match="cannot be written as JSON"):
        lme.load_dataset([record | {"answer": object()}])


def test_a_sample_is_the_one_of_the_command_line() -> None:
    data = lme.load_dataset("sample")
    ids = [question.question_id for question in data.dataset.questions()]
    sample = data.sample(12, seed=3)
    assert sample.selection == Selection(sample=12, seed=3)
    assert len(sample) == len(sample.questions) == 12
    assert repr(sample) == "Data('sample', 12 of 108 questions, a sample by type with seed 3)"
    assert repr(data) == "Data('sample', 108 questions)"
    assert {question.question_id for question in data.sample(6, seed=3).questions} < {
        question.question_id for question in sample.questions
    }
    assert [question.question_id for question in data.first(2).questions] == ids[:2]


def test_where_takes_the_questions_of_a_type_and_a_sample_of_them_is_stratified() -> None:
    data = lme.load_dataset("sample")
    types = data.where(type=["multi-session", "knowledge-update"])
    assert set(types.types) == {"multi-session", "knowledge-update"}
    assert sum(types.types.values()) == len(types)
    few = types.sample(4, seed=1)
    assert len(few) == 4
    assert set(few.types) == {"multi-session", "knowledge-update"}
    asked = select(list(data.dataset.questions()), few.selection, data.dataset.question_type)
    assert asked == few.questions
    one = few.where(question_id=few.questions[0].question_id)
    assert len(one) == 1
    with pytest.raises(HarnessError, match="among the chosen questions"):
        one.where(question_id=few.questions[1].question_id)


def test_records_are_a_data_set_that_evaluate_finds_again(data: lme.Data, folder: Path) -> None:
    (file,) = (folder / "data" / "records").iterdir()
    assert file.stem == data.name
    assert json.loads(file.read_text())[1]["question_id"] == "q1"
    run = lme.run(data, "full-history", MODEL)
    assert lme.Run.open(run.id).evaluate(OFFLINE).score == run.evaluate(OFFLINE).score
    changed = lme.load_dataset([colour_record(number, answer="mauve") for number in range(4)], name="colours")
    assert changed.name != data.name
    assert lme.run(changed, "full-history", MODEL).id != run.id


@pytest.mark.slow
def test_the_same_settings_return_the_run_and_others_make_another(data: lme.Data, folder: Path) -> None:
    first = lme.run(data, "bm25", MODEL)
    before = tree(folder / "results")
    again = lme.run(data, lme.Memory("bm25"), MODEL)
    assert (again.id, tree(folder / "results")) == (first.id, before)
    assert again.report
    assert again.report.newly_answered == 0
    others = {
        lme.run(data, lme.Memory("bm25", top_k=3), MODEL).id,
        lme.run(data.sample(2), "bm25", MODEL).id,
        lme.run(data, "bm25", MODEL, options=lme.RunOptions(reading=lme.reading_configuration("con"))).id,
        lme.run(data, "bm25", MODEL, fresh=True).id,
    }
    assert len(others | {first.id}) == 5
    assert f"{first.id}-2" in others
    named = lme.run(data, "bm25", MODEL, name="mine")
    assert (named.id, lme.run(data, "bm25", MODEL, name="mine").id) == ("mine", "mine")
    with pytest.raises(HarnessError, match="other settings"):
        lme.run(data, "hybrid", MODEL, name="mine")


def test_a_run_and_its_evaluation_hold_what_the_files_say(data: lme.Data, folder: Path) -> None:
    run = lme.run(data, lme.Memory("full-history", label="all"), MODEL)
    assert (run.status, run.manifest.settings.memory_name) == ("completed", "all")
    assert set(run.answers) == {"q0", "q1", "q2", "q3"}
    assert all("answer" in " ".join(ids) or ids for ids in run.recalls.values())
    assert run.cost.answers.usd == 0
    assert run.cost.judge.calls == 0
    assert run.latency.total.p50 is not None
    graded = run.evaluate(judge=OFFLINE)
    assert graded.score == graded.metrics.overall.accuracy == 1
    assert graded.interval == graded.metrics.overall.interval
    assert sum(score.n for score in graded.by_type.values()) == 4
    assert (set(graded.judgements), graded.wrong) == (set(run.answers), [])
    assert (graded.answers, graded.recalls) == (run.answers, run.recalls)
    assert repr(graded).startswith(f"Evaluation('{run.id}', accuracy 100.0% [51.0%, 100.0%] of 4 questions, by ")
    assert repr(run) == f"Run('{run.id}', all, offline/extractive, 4 of 4 questions answered, completed)"
    assert read_manifest(folder / "results" / run.id) == run.manifest


@pytest.mark.slow
def test_a_comparison_prints_as_the_terminal_does(data: lme.Data, folder: Path) -> None:
    graded = [lme.run(data, memory, MODEL).evaluate(OFFLINE) for memory in ("none", "full-history")]
    found = lme.compare(*graded)
    assert (
        found == lme.compare(*(one.id for one in graded))
        or found.pairs == lme.compare(graded[0].id, graded[1].id).pairs
    )
    text = str(found)
    assert found.verdict.code == "too-few"
    assert " ".join(text.split()).startswith(found.verdict.text)
    assert "accuracy" in text
    # A command to be typed is one word however long its path is.
    assert max(len(line) for line in text.splitlines() if "/" not in line) <= 100
    assert "\n" not in repr(found)
    assert [group.count for group in found.lost] == [group.count for group in found.digest.groups]
    assert found.report("page.html").read_text().startswith("<!DOCTYPE html>")
    assert "\\begin{tabular}" in found.report("table.tex").read_text()


def test_runs_lists_what_there_is(data: lme.Data) -> None:
    made = [lme.run(data, memory, MODEL).id for memory in ("none", "last-k")]
    assert {run.id for run in lme.runs()} == set(made)
    assert [run.id for run in lme.runs(memory="last*")] == made[1:]


@pytest.mark.slow
def test_a_class_is_a_memory(data: lme.Data) -> None:
    run = lme.run(data, lme.Memory(Notes, limit=2), MODEL)
    assert (run.status, run.manifest.settings.memory_name) == ("completed", "Notes")
    assert "boil" not in " ".join(answer.hypothesis for answer in run.answers.values())
    other = lme.run(data, lme.Memory(Notes, limit=2, prefix="noted: "), MODEL)
    assert other.id != run.id


@pytest.mark.slow
def test_a_class_in_hand_is_probed_and_nothing_is_not(folder: Path) -> None:
    found = lme.probe(Notes, "bm25", seed=2, lives=1, sessions=(10,))
    assert [one.memory for one in found.memories] == ["Notes", "bm25", "none", "oracle"]
    with pytest.raises(HarnessError, match=r"probe\(\) needs a memory"):
        lme.probe(seed=2)
