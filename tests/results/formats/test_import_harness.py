"""Results of other harnesses: runs that can be verified, graded and compared; what a file does not say is not known."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.formats.harness_files import HarnessFormat, HarnessImport, import_harness
from longmemeval.results.graded.graded_run import load_graded
from tests.conftest import real_file
from tests.pipeline.helpers import colours, compare, folders_in
from tests.support import json_lines, longmemeval

Answer = tuple[str, str, str, float | None]
"""The harness's id of the question, its text, the answer, the credit."""


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return colours(tmp_path / "d.json")


def asked(number: int) -> str:
    return f"What colour is my bicycle{number}?"


FOUR: tuple[Answer, ...] = (
    ("q0", asked(0), "It is red.", 1.0),
    ("q1", asked(1), "It is pink.", 0.0),
    ("q2", asked(2), "It is blue.", 1.0),
)


def memorybench(*answers: Answer, **changes: object) -> dict[str, Any]:
    evaluations = [
        {
            "questionId": name,
            "questionType": "single-session-user",
            "question": text,
            "score": credit,
            "label": "correct" if credit == 1 else "incorrect",
            "explanation": f"because {name}",
            "hypothesis": said,
            "groundTruth": "?",
            "searchResults": [{"content": "a memory"}],
            "searchDurationMs": 12,
        }
        for name, text, said, credit in answers
    ]
    summary = {"totalQuestions": len(answers), "correctCount": 2, "accuracy": 2 / 3}
    own = {"provider": "supermemory", "benchmark": "b", "judge": "gpt-4o", "answeringModel": "gpt-4o-mini"}
    return own | {"summary": summary, "evaluations": evaluations} | changes


def amb(*answers: Answer, **changes: object) -> dict[str, Any]:
    results = [
        {
            "query_id": name,
            "query": text,
            "answer": said,
            "context": "what was recalled",
            "context_tokens": 4,
            "gold_answers": ["?"],
            "correct": credit is not None and credit >= 0.5,
            "judge_reason": f"because {name}",
            "score": None if credit in (0, 1) else credit,
        }
        for name, text, said, credit in answers
    ]
    own = {"dataset": "d", "split": "s", "memory_provider": "hindsight", "accuracy": 0.5, "answer_llm": "gemini:flash"}
    return own | {"judge_llm": None, "results": results} | changes


def mem0_benchmarks(
    *answers: Answer, cutoffs: tuple[str, ...] = ("top_10", "top_50"), mode: str = "answerer"
) -> dict[str, Any]:
    evaluations = [
        {
            "question_id": name,
            "question": text,
            "retrieval": {"search_results": [], "search_latency_ms": 3.0},
            "cutoff_results": {
                cutoff: {
                    "judgment": "ERROR" if credit is None else "PASS" if credit >= 0.5 else "FAIL",
                    "score": credit or 0.0,
                    "generated_answer": f"{said} ({cutoff})",
                    "reason": f"because {name}",
                }
                for cutoff in cutoffs
            },
        }
        for name, text, said, credit in answers
    ]
    metrics = {cutoff: {"overall": {"total": len(answers), "accuracy": 66.7}} for cutoff in cutoffs}
    metadata = {"mode": mode, "answerer_model": "gpt-5", "judge_model": "gpt-5", "project_name": "p"}
    return {"metadata": metadata, "metrics_by_cutoff": metrics, "evaluations": evaluations}


def stored(tmp_path: Path, content: dict[str, Any]) -> Path:
    file = tmp_path / "theirs.json"
    file.write_text(json.dumps(content))
    return file


def take(dataset: Dataset, file: Path, format: HarnessFormat, cutoff: str | None = None) -> HarnessImport:
    return import_harness(file, dataset, format, cutoff=cutoff, folders=folders_in(dataset.path.parent))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "content", "cutoff", "memory", "model"),
    [
        ("memorybench", memorybench(*FOUR), None, "supermemory", "gpt-4o-mini"),
        ("amb", amb(*FOUR), None, "hindsight", "gemini:flash"),
        ("mem0-benchmarks", mem0_benchmarks(*FOUR), "top_50", "mem0 top_50", "gpt-5"),
    ],
)
def test_a_run_that_can_be_verified_graded_and_compared(
    dataset: Dataset,
    tmp_path: Path,
    format: HarnessFormat,
    content: dict[str, Any],
    cutoff: str,
    memory: str,
    model: str,
) -> None:
    folders = folders_in(tmp_path)
    imported = take(dataset, stored(tmp_path, content), format, cutoff)
    assert (imported.answered, imported.missing, imported.unknown) == (3, ("q3",), ())
    assert imported.claimed in (2 / 3, 0.5, 0.667)
    overall = imported.metrics.overall
    assert (overall.n, overall.correct, overall.not_evaluated, overall.accuracy) == (4, 2, 1, 0.5)
    assert imported.metrics.judge.official is False
    assert verify(imported.run_id, folders=folders).problems == ()
    (run,) = load_graded([imported.run_id], folders)
    assert (run.summary.memory, run.summary.model) == (memory, model)
    unknown = run.summary.costs.answers.usd, run.summary.mean_prompt_tokens, run.summary.latency.model.p50
    assert unknown == (None, None, None)
    judged = json_lines(run.files.folder / "judgements" / f"{imported.metrics.judge.id}.jsonl")
    assert [one["raw"] for one in judged] == ["because q0", "because q1", "because q2"]
    again = evaluate(imported.run_id, options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    assert again.metrics.overall.correct == 2
    assert take(dataset, tmp_path / "theirs.json", format, cutoff) == imported, "again: nothing changes"
    all_four = (*FOUR, ("q3", asked(3), f"It is {dataset.gold('q3').answer}.", 1.0))
    other = take(dataset, stored(tmp_path, memorybench(*all_four)), "memorybench")
    evaluate(other.run_id, options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    (pair,) = compare([imported.run_id, other.run_id], judge=LEXICAL_JUDGE, folders=folders).pairs
    assert (pair.difference, pair.significant) == (-0.25, False)


def test_two_harnesses_with_one_judging_model_are_two_judges(dataset: Dataset, tmp_path: Path) -> None:
    one = take(dataset, stored(tmp_path, memorybench(*FOUR)), "memorybench")
    other = take(dataset, stored(tmp_path, amb(*FOUR, judge_llm="gpt-4o")), "amb")
    assert one.metrics.judge.id != other.metrics.judge.id
    assert one.metrics.judge.model == other.metrics.judge.model == "gpt-4o"


def test_questions_are_known_by_their_text_where_ids_differ(dataset: Dataset, tmp_path: Path) -> None:
    answers = (
        ("conv-1-q7", asked(2), "It is blue.", 1.0),
        ("q1", asked(0), "It is red.", 1.0),
        ("q3", "Another question altogether?", "It is.", 1.0),
    )
    imported = take(dataset, stored(tmp_path, memorybench(*answers)), "memorybench")
    assert imported.unknown == ("q3",), "its id is known, and the question is another"
    assert imported.missing == ("q1", "q3")
    folders = folders_in(tmp_path)
    said = {
        one["question_id"]: one["hypothesis"]
        for one in json_lines(folders.results_dir / imported.run_id / "answers.jsonl")
    }
    assert said == {"q2": "It is blue.", "q0": "It is red."}


def test_a_question_that_is_asked_twice_is_known_by_its_id_or_said_to_be_unclear(tmp_path: Path) -> None:
    """Two people's conversations ask the same; a harness that numbers them on its own does not say whose it means."""
    twice = colours(tmp_path / "d.json", 3, question="What colour is it?")
    known = [("q0", "What colour is it?", "red", 1.0), ("q_1", "What colour is it?", "pink", 0.0)]
    unclear = ("conv3_0", "What colour is it?", "green", 1.0)
    file = stored(tmp_path, mem0_benchmarks(*known, unclear, ("q9", "Where?", "there", 1.0), cutoffs=("top_10",)))
    imported = take(twice, file, "mem0-benchmarks")
    assert (imported.ambiguous, imported.unknown, imported.missing) == (("conv3_0",), ("q9",), ("q2",))
    command = ("import", file, "--dataset", twice.path, "--format", "mem0-benchmarks")
    told = longmemeval(*command, cwd=tmp_path).stderr
    assert "asks the question more than once, and the id does not say which one is meant: conv3_0" in told
    with pytest.raises(HarnessError, match=r"asks every question of this file more than once.*'conv3_0'"):
        take(twice, stored(tmp_path, amb(unclear)), "amb")


def test_fractions_stay_fractions_and_gzip_is_read(dataset: Dataset, tmp_path: Path) -> None:
    file = tmp_path / "100k.json.gz"
    file.write_bytes(gzip.compress(json.dumps(amb(FOUR[0], ("q1", asked(1), "pink", 0.25))).encode()))
    metrics = take(dataset, file, "amb").metrics
    assert (metrics.judge.metric, metrics.overall.accuracy, metrics.overall.correct) == ("score", 1.25 / 4, 1)


def test_of_several_cutoffs_one_is_chosen(dataset: Dataset, tmp_path: Path) -> None:
    file = stored(tmp_path, mem0_benchmarks(*FOUR, ("q3", asked(3), "It is.", None)))
    with pytest.raises(HarnessError, match="holds answers at top_10, top_50"):
        take(dataset, file, "mem0-benchmarks")
    few, many = take(dataset, file, "mem0-benchmarks", "top_10"), take(dataset, file, "mem0-benchmarks", "top_50")
    assert few.run_id != many.run_id
    assert many.unlabelled == ("q3",)
    assert many.metrics.overall.not_evaluated == 1
    single = stored(tmp_path, mem0_benchmarks(*FOUR, cutoffs=("top_200",)))
    assert take(dataset, single, "mem0-benchmarks").memory == "mem0 top_200"


@pytest.mark.parametrize(
    ("format", "content", "told"),
    [
        ("memorybench", {"evaluations": []}, "does not have the shape of memorybench"),
        ("memorybench", amb(*FOUR), "--format amb"),
        ("amb", mem0_benchmarks(*FOUR), "--format mem0-benchmarks"),
        ("mem0-benchmarks", memorybench(*FOUR), "--format memorybench"),
        (
            "mem0-benchmarks",
            mem0_benchmarks(*FOUR, mode="retrieval"),
            "its judge graded what was retrieved, not answers",
        ),
        ("mem0-benchmarks", mem0_benchmarks(*FOUR, cutoffs=()), "holds no answer"),
        ("amb", amb(), "holds no answer"),
        ("amb", amb(("x", "Where is it?", "there", 1.0)), "No question of this file is in the dataset"),
        ("amb", amb(FOUR[0], ("q0", asked(0), "It is green.", 0.0)), "'q0' has two different answers"),
        ("amb", amb(FOUR[0], ("q0", asked(0), "It is red.", 0.0)), "'q0' has two different answers"),
    ],
)
def test_other_files_are_refused(
    dataset: Dataset, tmp_path: Path, format: HarnessFormat, content: dict[str, Any], told: str
) -> None:
    with pytest.raises(HarnessError) as refused:
        take(dataset, stored(tmp_path, content), format)
    assert told in f"{refused.value} {refused.value.fix}"
    assert not list(tmp_path.glob("results/*"))


def test_the_command_says_what_the_file_claims_and_what_it_is_here(dataset: Dataset, tmp_path: Path) -> None:
    file = stored(tmp_path, memorybench(*FOUR, ("q9", "Where?", "there", 1.0)))
    command = ("import", file, "--dataset", dataset.path, "--format", "memorybench", "--run-id", "theirs")
    done = longmemeval(*command, cwd=tmp_path)
    assert done.stdout.startswith("Run theirs: 3 answers of supermemory and gpt-4o-mini\n")
    assert "The file itself claims 66.7% over its own questions; here it is 50.0% over all 4." in done.stdout
    assert "1 line is ignored: the dataset does not have the question: q9" in done.stderr
    assert "1 question is without a hypothesis, counted as not evaluated: q3" in done.stderr
    assert json.loads(longmemeval(*command, "--json", cwd=tmp_path).stdout)["memory"] == "supermemory"
    longmemeval("import", file, "--dataset", dataset.path, "--cutoff", "top_5", cwd=tmp_path, code=2)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["{conversation}-q{place}", "{conversation}_q{place}"])
def test_every_question_of_locomo_is_found(tmp_path: Path, form: str) -> None:
    """By the ids that two harnesses give them, also where a text is asked more than once."""
    data = load_dataset(real_file("locomo10.json"))
    questions = list(data.questions())
    answers = [
        (form.format(conversation=one.haystack_id, place=one.question_id.partition("/q")[2]), one.text, "?", 0.0)
        for one in questions
    ]
    imported = import_harness(stored(tmp_path, amb(*answers)), data, "amb", folders=folders_in(tmp_path))
    assert (imported.answered, imported.unknown) == (1986, ())
