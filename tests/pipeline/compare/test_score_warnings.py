"""Warnings that belong to a number: each stands beside the score where its reason holds, and nowhere else."""

import dataclasses
import json
import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS, benchmark_of
from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.pipeline.compare.compare import marked_rows
from longmemeval.pipeline.compare.sentences import SCORE_WARNINGS
from longmemeval.pipeline.evaluate.estimate import estimate_grading
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.judge_check.check import JudgeChecking
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.report.documents import comparison_document
from longmemeval.results.formats.hypotheses import adopt_hypotheses
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.results.scores.warnings import ScoreWarning, WarningCode, history_fits
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.pipeline.helpers import answer_all, colours, compare, folders_in, patience, prepared_colours
from tests.server import ModelServer
from tests.support import longmemeval

LEXICAL = "offline/lexical"


def warnings_of(run_id: str, folders: Folders) -> dict[str, str]:
    """Code to text."""
    (found,) = load_graded([run_id], folders)
    return {one.code: one.text for one in found.summary.warnings}


def graded(data: Dataset, folders: Folders, run_id: str, memory: str, *overrides: str) -> dict[str, str]:
    answer_all(data, folders, run_id, memory=resolve_configuration(memory, overrides))
    evaluate(run_id, options=EvaluateOptions(judge=LEXICAL), folders=folders)
    return warnings_of(run_id, folders)


@pytest.mark.slow
def test_limits_that_let_the_whole_history_through(tmp_path: Path) -> None:
    """Each history has six messages of a few dozen tokens."""
    data, folders = prepared_colours(tmp_path, 8, "bm25")
    let_through = graded(data, folders, "wide", "bm25", "top_k=6", "budget=5000")["history-fits"]
    assert let_through == (
        "For 100% of the questions the memory returned the whole history (top_k covers all its messages: 100%, "
        "last_messages covers all its messages: 100%, the budget covers all its tokens: 100%, all of it was retrieved: "
        "100%); they do not test retrieval."
    )
    narrow = ("top_k=5", "last_messages=2", "message_range=0", "budget=20")
    assert "history-fits" not in graded(data, folders, "narrow", "bm25", *narrow)
    # With neighbours, five of six messages are all.
    spread = graded(data, folders, "spread", "bm25", "top_k=5", "last_messages=1", "message_range=2")["history-fits"]
    assert spread.endswith("history (all of it was retrieved: 100%); they do not test retrieval.")
    assert "history-fits" not in graded(data, folders, "whole", "full-history"), "a control sees all of it by design"


@pytest.mark.slow
def test_a_share_of_the_questions(tmp_path: Path) -> None:
    data, folders = prepared_colours(tmp_path, 8, "bm25")
    graded(data, folders, "r", "bm25", "top_k=6")
    (found,) = load_graded(["r"], folders)
    some = [
        msgspec.structs.replace(answer, loose_limits=answer.loose_limits if place < 2 else ())
        for place, answer in enumerate(found.answers.values())
    ]
    assert history_fits(some).startswith("For 25% of the questions")


@pytest.mark.slow
def test_fewer_questions_than_can_show_anything(tmp_path: Path) -> None:
    data, folders = prepared_colours(tmp_path, 6)
    assert "few-questions" not in graded(data, folders, "six", "last-k")
    answer_all(data, folders, "five", selection=Selection(limit=5))
    evaluate("five", options=EvaluateOptions(judge=LEXICAL), folders=folders)
    told = "5 questions are too few for any difference to be significant."
    assert warnings_of("five", folders)["few-questions"] == told
    # On the questions that both runs share, both have five.
    assert [
        [one.text for one in figures.summary.warnings if one.code == "few-questions"]
        for figures in compare(["six", "five"], common=True, folders=folders).runs
    ] == [[told], [told]]


GERMAN = "Welche Farbe hat mein Rad, und wann habe ich es gestrichen?"


def test_a_judge_of_english_words_on_other_languages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code and a sentence beside the score; no such judge by default, and still one that is named."""
    spec = dataclasses.replace(BENCHMARK_SPECS.get("longmemeval"), default_judge=LEXICAL)
    monkeypatch.setitem(BENCHMARK_SPECS._loaded, "longmemeval", spec)
    data, folders = colours(tmp_path / "c.json", 6, question=GERMAN), folders_in(tmp_path)
    prepare(data, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    told = graded(data, folders, "r", "last-k")["not-english"]
    assert told.startswith("6 of 6 questions or their answers are not in English. offline/lexical compares English")
    for refuses in (
        lambda: evaluate("r", folders=folders),
        lambda: estimate_grading([None], "r", options=EvaluateOptions(), folders=folders),
        lambda: JudgeChecking(data, folders=folders),
    ):
        with pytest.raises(HarnessError, match=r"offline/lexical compares English words, and 6 of 6 questions of 'c'"):
            refuses()
    (tmp_path / "e").mkdir()
    english, folders = prepared_colours(tmp_path / "e", 6)
    assert "not-english" not in graded(english, folders, "s", "last-k")
    assert evaluate("s", folders=folders).summary.metrics.judge.model == LEXICAL


def test_a_history_in_another_language(tmp_path: Path) -> None:
    """Its scores say how much of it is."""
    path = colours(tmp_path / "c.json", 6).path
    records = json.loads(path.read_text())
    for record in records:
        record["haystack_sessions"][0].insert(0, {"role": "user", "content": "我昨天搬到上海了。"})
    path.write_text(json.dumps(records))
    data, folders = LongMemEvalDataset(path), folders_in(tmp_path)
    prepare(data, ["bm25"], options=PrepareOptions(jobs=1), folders=folders)
    told = graded(data, folders, "r", "bm25")["foreign-history"]
    assert re.match(r"\d+% of \d+ messages that we looked at are not in English", told)


def test_answers_in_another_language(tmp_path: Path) -> None:
    """Imported, to questions in English."""
    data, folders = prepared_colours(tmp_path, 6)
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps({"question_id": f"q{n}", "hypothesis": "赤です。"}) + "\n" for n in range(6)))
    adopt_hypotheses(log, data, folders.results_dir, run_id="r")
    evaluate("r", options=EvaluateOptions(judge=LEXICAL), folders=folders)
    assert warnings_of("r", folders)["not-english"].startswith("6 of 6 questions or their answers")


@pytest.mark.slow
def test_a_judge_that_was_never_checked(tmp_path: Path) -> None:
    data, folders = prepared_colours(tmp_path, 6)
    told = graded(data, folders, "r", "last-k")["unchecked-judge"]
    assert f"`longmemeval judge check offline/lexical --dataset {data.path}`" in told
    graded(data, folders, "s", "last-k", "last_messages=1")
    JudgeChecking(data, LEXICAL, folders=folders).check()
    comparison = compare(["r", "s"], folders=folders)
    assert not any(one.code == "unchecked-judge" for one_run in comparison.runs for one in one_run.summary.warnings)


@pytest.mark.slow
def test_a_benchmark_that_says_nothing_of_plants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No judge is checked on it, no score corrected, by an old check neither, and nobody is sent to make one."""
    data, folders = prepared_colours(tmp_path, 6)
    graded(data, folders, "r", "last-k")
    JudgeChecking(data, LEXICAL, folders=folders).check()
    assert compare(["r"], folders=folders).runs[0].summary.judge_check is not None
    silent = dataclasses.replace(benchmark_of(data), planting=None)
    monkeypatch.setitem(BENCHMARK_SPECS._loaded, silent.name, silent)
    (found,) = compare(["r"], folders=folders).runs
    assert found.summary.judge_check is None
    (told,) = [one.text for one in found.summary.warnings if one.code == "unchecked-judge"]
    assert "LongMemEval" in told
    assert "judge check" not in told
    with pytest.raises(HarnessError, match="defines no test answers") as refused:
        JudgeChecking(data, LEXICAL, folders=folders)
    assert "docs/add-a-benchmark.md" in str(refused.value.fix)


@pytest.mark.parametrize(
    ("model", "judge", "family"),
    [
        ("openai/gpt-4o-mini", "openai/gpt-4o-2024-08-06", "GPT"),
        ("openai/claude-3-haiku", "openai/gpt-4o-2024-08-06", ""),
        ("openai/my-model", "openai/my-model", ""),
    ],
)
def test_a_judge_of_the_answering_model_s_family(tmp_path: Path, model: str, judge: str, family: str) -> None:
    data, folders = prepared_colours(tmp_path, 6)
    with ModelServer(lambda body: "yes") as server:
        run(data, "last-k", model, options=RunOptions(run_id="r", model_options=patience(server)), folders=folders)
        options = EvaluateOptions(judge=judge, model_options=ModelOptions(api_base=server.url))
        evaluate("r", options=options, folders=folders)
    found = warnings_of("r", folders).get("same-family", "")
    assert (f"are both {family} models" in found) == bool(family)
    assert bool(found) == bool(family)


def test_warnings_stand_where_the_number_is_printed(tmp_path: Path) -> None:
    data, folders = prepared_colours(tmp_path, 5)
    graded(data, folders, "a", "last-k")
    graded(data, folders, "b", "last-k", "last_messages=2")
    found = compare(["a", "b"], folders=folders)
    document = comparison_document(found)
    codes = [[one["code"] for one in figures["warnings"]] for figures in document["runs"]]
    usual = ["few-questions", "unchecked-judge", "unequal-tokens"]
    assert codes == [["history-fits", *usual], usual]
    # What the compared memory has too marks no score; `a` alone has the other warning. That the questions are too few
    # is the verdict, and not said again.
    assert [row.warned for row in found.rows] == [True, False]
    said = {one.code: one.runs.get("names") for one in found.sentences if one.code in SCORE_WARNINGS}
    assert said == {"history-fits": ("a",), "unchecked-judge": (), "unequal-tokens": ()}
    assert found.verdict.code == "too-few"
    short = longmemeval("compare", "a", "b", cwd=tmp_path).stdout
    assert short.count("] !") == 1
    (sentence,) = [one for one in found.sentences if one.code == "history-fits"]
    assert sentence.text(found.names) in " ".join(short.split())


def test_only_a_warning_that_not_all_memories_share_marks_a_score(tmp_path: Path) -> None:
    data, folders = prepared_colours(tmp_path, 6)
    graded(data, folders, "r", "last-k")
    (figures,) = compare(["r"], folders=folders).rows
    fits, few = (ScoreWarning(code, code) for code in get_args(WarningCode)[:2])

    def marks(*of_memories: tuple[ScoreWarning, ...], base: bool = False, oracle: bool = False) -> list[str]:
        """The rows that are marked: of a baseline, memories, a control."""
        given = {"base": (fits,) * base, **dict(zip("ab", of_memories, strict=False)), "oracle": (fits,) * oracle}
        rows = [
            msgspec.structs.replace(
                figures,
                summary=msgspec.structs.replace(
                    figures.summary, run_id=name, warnings=warnings, reads_gold=name == "oracle"
                ),
            )
            for name, warnings in given.items()
        ]
        return sorted(marked_rows(rows))

    assert marks((fits,), (fits,)) == []
    assert marks((fits,), (fits, few)) == ["b"]
    assert marks((fits,), (), base=True) == ["a", "base"]
    assert marks((fits,), (fits,), base=True, oracle=True) == []
    assert marks((fits,), (fits,), base=True) == []
    # Where no memory is compared, nothing is shared.
    assert marks(base=True, oracle=True) == ["base", "oracle"]
