"""`evaluate` adds judgements beside answers it never touches, and counts every selected question."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.core.files import sha256_file
from longmemeval.core.journal import Journal
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, FatalModelError, HarnessError, IntegrityError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.llm.http import endpoints
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.records import Judgement
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.pipeline.helpers import answer_all, colour_record, colours, folders_in, manifest, prepared_colours
from tests.server import ModelServer
from tests.support import json_lines, longmemeval, tree, write_dataset

OFFLINE = EvaluateOptions(judge=LEXICAL_JUDGE)
OFFICIAL = "openai/gpt-4o-2024-08-06"
TYPES = (
    "single-session-user", "single-session-preference", "single-session-assistant",
    "multi-session", "temporal-reasoning", "knowledge-update",
)  # fmt: skip


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123")
    with ModelServer(lambda body: "Yes.", served_model=OFFICIAL.removeprefix("openai/")) as server:
        yield server


def judged(folders: Folders, server: ModelServer, model: str = OFFICIAL) -> Evaluation:
    patience = ModelOptions(api_base=server.url, max_attempts=2, max_wait_s=0.01)
    return evaluate("r", options=EvaluateOptions(judge=model, model_options=patience, concurrency=1), folders=folders)


def scripted(tmp_path: Path, dataset: Dataset, folders: Folders, hypotheses: dict[str, str]) -> None:
    """A run `r` whose answers are `hypotheses`; a question without one failed."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps(hypotheses))
    prepare(dataset, ["none"], folders=folders)
    run(dataset, "none", f"offline/scripted:{script}", options=RunOptions(run_id="r"), folders=folders)


def judgements(folders: Folders) -> list[dict[str, Any]]:
    (path,) = (folders.results_dir / "r" / "judgements").iterdir()
    return json_lines(path)


def test_answers_keep_every_byte_and_a_second_judge_is_a_second_file(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    before = tree(folders.results_dir)
    first = evaluate("r", options=OFFLINE, folders=folders)
    after_first = tree(folders.results_dir, without=("index.jsonl",))
    index = (folders.results_dir / "index.jsonl").read_text()
    second = judged(folders, server)
    after_second = tree(folders.results_dir)
    assert (folders.results_dir / "index.jsonl").read_text().startswith(index)
    assert {name: after_second[name] for name in before} == before
    assert {name: after_second[name] for name in after_first} == after_first
    judges = {first.metrics.judge.id, second.metrics.judge.id}
    assert {path.stem for path in (folders.results_dir / "r" / "judgements").iterdir()} == judges
    assert {path.stem for path in (folders.results_dir / "r" / "metrics").iterdir()} == judges
    assert len(judges) == 2


def test_labels_are_given_once(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    first = judged(folders, server)
    files = tree(folders.results_dir)
    again = judged(folders, server)
    assert (first.newly_judged, again.newly_judged) == (4, 0)
    assert first.metrics == again.metrics
    assert len(server.chat_requests) == 4
    assert tree(folders.results_dir) == files


def test_failed_judge_call_is_not_evaluated_and_redone(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    server.faults.extend([400, 500, 500, "null-content", "null-content"])
    first = judged(folders, server).metrics.overall
    assert (first.n, first.correct, first.not_evaluated, first.accuracy) == (4, 1, 3, 0.25)
    assert [line["label"] for line in judgements(folders)] == [None, None, None, True]
    assert all(line["error"] for line in judgements(folders)[:3])
    again = judged(folders, server)
    assert again.newly_judged == 3
    assert (again.metrics.overall.correct, again.metrics.overall.not_evaluated) == (4, 0)
    assert [line["label"] for line in judgements(folders)] == [None, None, None, True, True, True, True]


def test_command_tells_why_answers_have_no_label(tmp_path: Path, server: ModelServer) -> None:
    answer_all(*prepared_colours(tmp_path))
    server.responder = lambda body: "Maybe."
    line = ("evaluate", "r", "--judge", "strict@openai/gpt-4o-mini", "--api-base", server.url)
    done = longmemeval(*line, cwd=tmp_path, code=1, OPENAI_API_KEY="sk-of-the-tests")
    head, *reasons = [one for one in done.stderr.splitlines() if "could not be graded" in one or one.startswith("  q")]
    assert head.startswith("4 answers could not be graded by strict-gpt-4o-mini-")
    assert head.endswith("; rerun the command to retry:")
    assert len(reasons) == 4
    assert reasons[0].endswith(": The judge's reply cannot be read (finish reason: stop)")


def test_a_judge_without_a_name_is_not_the_default_one(tmp_path: Path) -> None:
    answer_all(*prepared_colours(tmp_path))
    assert "Unknown judge ''" in longmemeval("evaluate", "r", "--judge", "", cwd=tmp_path, code=2).stderr


def test_refused_key_keeps_the_labels_so_far(tmp_path: Path, server: ModelServer) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)

    def last_reply(body: dict[str, Any]) -> str:
        server.faults.extend([401] * 9)
        return "Yes."

    server.responder = last_reply
    with pytest.raises(FatalModelError, match="401"):
        judged(folders, server)
    assert [line["label"] for line in judgements(folders)] == [True]
    assert list((folders.results_dir / "r").glob("metrics/*")) == []


def test_every_selected_question_counts(tmp_path: Path) -> None:
    """6 of 8 selected; 2 right, 1 wrong, 1 abstains, 2 never answered: 2 of 6."""
    dataset, folders = colours(tmp_path / "d.json", 8), folders_in(tmp_path)
    script = {"q0": "It is red.", "q1": "green", "q2": "It is purple.", "q3": "I do not know."}
    (tmp_path / "s.json").write_text(json.dumps(script))
    prepare(dataset, ["none"], folders=folders)
    options = RunOptions(run_id="r")
    report = run(
        dataset, "none", f"offline/scripted:{tmp_path / 's.json'}", selection=Selection(limit=6), options=options,
        folders=folders,
    )  # fmt: skip
    assert (report.answered, report.failed) == (4, 2)
    score = evaluate("r", options=OFFLINE, folders=folders).metrics.overall
    assert (score.n, score.correct, score.not_evaluated) == (6, 2, 2)
    assert score.accuracy == 2 / 6
    done = longmemeval("evaluate", "r", "--judge", LEXICAL_JUDGE, cwd=tmp_path, code=1)
    (overall,) = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("overall")]
    assert overall == ["overall", "33.3%", "!", "[9.7,", "70.0]", "2", "6", "2"]
    assert done.stdout.startswith("r: 2 of 6 questions failed: No answer for question '…'")
    assert "r: 2 of 6 questions were not graded and count as wrong" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_answer_after_a_failure_is_judged(tmp_path: Path) -> None:
    dataset, folders = colours(tmp_path / "d.json", 2), folders_in(tmp_path)
    scripted(tmp_path, dataset, folders, {"q0": "red"})
    assert evaluate("r", options=OFFLINE, folders=folders).metrics.overall.correct == 1
    scripted(tmp_path, dataset, folders, {"q0": "red", "q1": "green"})
    again = evaluate("r", options=OFFLINE, folders=folders)
    assert again.newly_judged == 1
    assert again.metrics.overall.correct == 2


@pytest.mark.parametrize(
    ("model", "served", "official"),
    [
        (OFFICIAL, "gpt-4o-2024-08-06", True),
        (OFFICIAL, "gpt-4o-mini", False),
        (OFFICIAL, "gpt-4o-2024-11-20", False),
        ("openai/gpt-4o-mini", "gpt-4o-2024-08-06", False),
        ("openai/gpt-4o-2024-11-20", "gpt-4o-2024-11-20", False),
    ],
)
def test_official_is_the_official_model_by_the_servers_own_word(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch, model: str, served: str, official: bool
) -> None:
    # The test's server stands for OpenAI's own.
    monkeypatch.setitem(endpoints.OWN_ADDRESSES, "openai", server.url)
    dataset, folders = prepared_colours(tmp_path, 2)
    answer_all(dataset, folders)
    server.served_model = served
    assert judged(folders, server, model).metrics.judge.official is official


def test_output_says_who_judged_and_who_read_the_gold(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 2, "combined")
    answer_all(dataset, folders, "best", memory="oracle")
    answer_all(dataset, folders, "plain", memory="combined")
    best = longmemeval("evaluate", "best", "--judge", LEXICAL_JUDGE, cwd=tmp_path).stdout
    plain = longmemeval("evaluate", "plain", "--judge", LEXICAL_JUDGE, cwd=tmp_path).stdout
    assert "Judge: offline/lexical. Not the official judge" in best
    assert "oracle is given the gold evidence: an upper bound, not a memory system." in best
    assert "Not the official judge" in plain
    assert "oracle reads" not in plain
    assert "Embedder: hashing (offline fallback)" in plain


def test_json_is_one_document_of_the_agreed_shape(tmp_path: Path) -> None:
    records = [colour_record(number, question_type=kind) for number, kind in enumerate(TYPES)]
    records.append(colour_record(6, question_id="q6_abs", answer="You never said."))
    dataset = LongMemEvalDataset(write_dataset(tmp_path / "d.json", *records))
    scripted(tmp_path, dataset, folders_in(tmp_path), {"q0": "red", "q1": "green", "q6_abs": "I do not know."})
    done = longmemeval("evaluate", "r", "--judge", LEXICAL_JUDGE, "--json", cwd=tmp_path, code=1)
    document = json.loads(done.stdout)
    assert {"run", "judge", "overall", "task_averaged", "by_type", "abstention", "usage"} <= set(document)
    assert {"id", "model", "official"} <= set(document["judge"])
    score = {"accuracy", "correct", "n", "not_evaluated", "interval"}
    assert [set(one) for one in (document["overall"], document["abstention"], *document["by_type"].values())] == [
        score for _ in range(8)
    ]
    assert tuple(document["by_type"]) == TYPES
    # q0 and q6_abs are of the first type, of six with one question each besides.
    assert document["overall"]["accuracy"] == 3 / 7
    assert document["by_type"]["single-session-user"]["correct"] == 2
    assert document["task_averaged"] == pytest.approx((1 + 1 + 0 + 0 + 0 + 0) / 6)
    assert document["abstention"]["n"] == 1
    assert document["judge"]["official"] is False
    low, high = document["overall"]["interval"]
    assert 0 < low < 3 / 7 < high < 1


def test_moved_data_set_is_named_by_dataset(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    moved = dataset.path.rename(tmp_path / "moved.json")
    with pytest.raises(DataError, match="'colours' of run 'r' has moved") as caught:
        evaluate("r", options=OFFLINE, folders=folders)
    assert caught.value.fix == "Name the file with --dataset"
    found = evaluate("r", options=structs.replace(OFFLINE, dataset=str(moved)), folders=folders)
    assert found.newly_judged == 4


def test_data_set_named_like_one_of_the_catalogue_stays_the_users_own(tmp_path: Path) -> None:
    dataset, folders = colours(tmp_path / "longmemeval_s.json", 2), folders_in(tmp_path)
    prepare(dataset, ["last-k"], folders=folders)
    answer_all(dataset, folders)
    assert evaluate("r", options=OFFLINE, folders=folders).metrics.overall.n == 2


def test_other_data_is_refused(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    colours(tmp_path / "colours.json", 4, answer="mauve")
    with pytest.raises(HarnessError, match="The run answered other data"):
        evaluate("r", options=OFFLINE, folders=folders)
    # The same content written differently is the same data.
    records = [colour_record(number) for number in range(4)]
    (tmp_path / "colours.json").write_text(json.dumps(records, indent=4, ensure_ascii=True))
    assert evaluate("r", options=OFFLINE, folders=folders).metrics.overall.n == 4


def test_answer_that_was_changed_after_it_was_judged_is_noticed(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    evaluate("r", options=OFFLINE, folders=folders)
    path = folders.results_dir / "r" / "answers.jsonl"
    path.write_text(path.read_text().replace("painted my bicycle2", "sold my bicycle2"))
    with pytest.raises(IntegrityError, match=r"answers\.jsonl: was changed after the run ended"):
        evaluate("r", options=OFFLINE, folders=folders)
    # A manifest that was changed to fit does not hide it: the answer is not the one that was judged.
    document = manifest(folders)
    document["files"]["answers.jsonl"] = sha256_file(path)
    (folders.results_dir / "r" / "run.json").write_text(json.dumps(document))
    with pytest.raises(IntegrityError, match="'q2' was judged on another answer"):
        evaluate("r", options=OFFLINE, folders=folders)


def test_two_judging_processes_do_not_meet(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    path = (
        folders.results_dir
        / "r"
        / "judgements"
        / f"{evaluate('r', options=OFFLINE, folders=folders).metrics.judge.id}.jsonl"
    )
    before = path.read_bytes()
    with Journal(path, Judgement), pytest.raises(HarnessError, match="is writing to this journal"):
        evaluate("r", options=OFFLINE, folders=folders)
    assert path.read_bytes() == before


def test_unknown_judge_is_refused_with_the_nearest(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path)
    answer_all(dataset, folders)
    before = tree(folders.results_dir)
    with pytest.raises(HarnessError, match=r"Unknown judge 'offline/lexicl'.*Did you mean 'offline/lexical'"):
        evaluate("r", options=EvaluateOptions(judge="offline/lexicl"), folders=folders)
    assert tree(folders.results_dir) == before
