"""The official protocol, held against rank-bm25 and the official formulas written out here once more."""

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from rank_bm25 import BM25Okapi

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.benchmarks.longmemeval.official.measures import evaluate_retrieval, official_gold
from longmemeval.benchmarks.longmemeval.official.scoring import ranking_scores
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.measures.notation import Granularity, RetrievalResult
from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration
from longmemeval.pipeline.retrieval.ranking_run import RetrievalReport
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.report.tables.retrieval import retrieval_footnotes
from longmemeval.results.manifest import read_manifest
from longmemeval.results.selection import Selection
from tests.pipeline.helpers import checked, colour_record, folders_in
from tests.support import json_lines, tree, write_dataset

CUTOFFS = (1, 3, 5, 10, 30, 50)


def official(
    folder: Path,
    dataset: LongMemEvalDataset,
    granularity: Granularity = "session",
    memory: MemoryConfiguration | str = "bm25",
    log: Path | None = None,
    selection: Selection = Selection(),
) -> RetrievalReport:
    options = RetrievalOptions(protocol="official", granularity=granularity, run_id="r", log=log)
    return retrieve(dataset, [memory], selection=selection, options=options, folders=folders_in(folder))


def plain_corpus(entry: dict[str, Any], granularity: str) -> tuple[list[str], list[str], list[str]]:
    """Ids, texts and timestamps, from the JSON as it is."""
    ids, texts, dates = [], [], []
    columns = (entry["haystack_session_ids"], entry["haystack_sessions"], entry["haystack_dates"])
    for session_id, session, date in zip(*columns, strict=True):
        turns = [(number, turn) for number, turn in enumerate(session, start=1) if turn["role"] == "user"]
        units = [(f"{session_id}_{number}", [turn]) for number, turn in turns]
        if granularity == "session":
            units = [(session_id, [turn for _, turn in turns])]
        for name, own in units:
            labelled = any(turn.get("has_answer") for turn in own)
            ids.append(name if labelled or "answer" not in name else name.replace("answer", "noans"))
            texts.append(" ".join(turn["content"] for turn in own))
            dates.append(date)
    return ids, texts, dates


def gain(relevances: Sequence[int], k: int) -> float:
    kept = np.array(relevances[:k], dtype=np.float64)
    return float(kept[0] + np.sum(kept[1:] / np.log2(np.arange(2, kept.size + 1)))) if kept.size else 0.0


def plain_metrics(order: Sequence[int], ids: Sequence[str], k: int) -> list[float]:
    correct = {name for name in ids if "answer" in name}
    top = {ids[index] for index in order[:k]}
    ideal = gain(sorted((int(name in correct) for name in ids), reverse=True), k)
    found = gain([int(ids[index] in correct) for index in order], k)
    return [float(bool(correct & top)), float(correct <= top), found / ideal if ideal else 0.0]


def plain_turn_to_session(order: Sequence[int], ids: Sequence[str], k: int) -> list[float]:
    stripped = ["_".join(name.split("_")[:-1]) for name in ids]
    effective = k
    while effective <= len(ids) and len({stripped[index] for index in order[:effective]}) < k:
        effective += 1
    return plain_metrics(order, stripped, effective)


@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_real_question_equals_the_library_and_the_formulas(
    tmp_path: Path, real_longmemeval: Path, granularity: Granularity
) -> None:
    report = official(tmp_path, LongMemEvalDataset(real_longmemeval), granularity, log=tmp_path / "log")
    entry = json.loads(real_longmemeval.read_text())[0]
    ids, texts, dates = plain_corpus(entry, granularity)
    scores = BM25Okapi([text.split(" ") for text in texts]).get_scores(entry["question"].split(" "))
    order = np.argsort(scores, kind="stable")[::-1].tolist()
    (line,) = json_lines(tmp_path / "results" / "r" / "rankings.jsonl")
    assert line["level"] == granularity
    assert line["ranked"] == [{"id": ids[index], "score": scores[index]} for index in order]
    names = ("recall_any", "recall_all", "ndcg_official")
    views = {"session": plain_metrics} if granularity == "session" else {"turn": plain_metrics}
    if granularity == "turn":
        views["turn2session"] = plain_turn_to_session
    assert list(dict.fromkeys(result.granularity for result in report.runs[0].results)) == list(views)
    for result in report.runs[0].results:
        expected = {
            f"{name}@{k}": value
            for k in CUTOFFS
            for name, value in zip(names, views[result.granularity](order, ids, k), strict=True)
        }
        assert {name: mean.mean for name, mean in result.measures.items()} == expected
    (logged,) = json_lines(tmp_path / "log")
    assert list(logged) == [
        *("question_id", "question_type", "question", "answer", "question_date", "haystack_dates"),
        *("haystack_sessions", "haystack_session_ids", "answer_session_ids", "retrieval_results"),
    ]
    found = logged.pop("retrieval_results")
    assert logged == {name: entry[name] for name in logged}
    assert list(found) == ["query", "ranked_items", "metrics"]
    assert found["query"] == entry["question"]
    assert found["ranked_items"] == [
        {"corpus_id": ids[index], "text": texts[index], "timestamp": dates[index]} for index in order
    ]
    by_level = {"session": plain_metrics if granularity == "session" else plain_turn_to_session}
    by_level |= {"turn": plain_metrics} if granularity == "turn" else {}
    assert found["metrics"] == {"session": {}, "turn": {}} | {
        level: {
            f"{name}@{k}": value
            for k in CUTOFFS
            for name, value in zip(("recall_any", "recall_all", "ndcg_any"), formula(order, ids, k), strict=True)
        }
        for level, formula in by_level.items()
    }
    assert list(found["metrics"]["session"])[:4] == ["recall_any@1", "recall_all@1", "ndcg_any@1", "recall_any@3"]


@given(st.lists(st.sampled_from(["answer_a", "answer_b", "noans_c", "d", "e"]), max_size=70))
def test_one_pass_over_a_ranking_equals_the_formulas_at_each_cutoff(ranked: list[str]) -> None:
    gold = official_gold(ranked)
    assert ranking_scores(ranked) == {k: evaluate_retrieval(range(len(ranked)), gold, ranked, k) for k in CUTOFFS}


def many(path: Path) -> LongMemEvalDataset:
    """Three questions with user evidence, one with the assistant's only, one abstention."""
    records = [colour_record(number) for number in range(5)]
    evidence = records[3]["haystack_sessions"][1]
    evidence[0].pop("has_answer")
    evidence[1]["has_answer"] = True
    records[4]["question_id"] = "q4_abs"
    return LongMemEvalDataset(write_dataset(path, *records))


def denominators(report: RetrievalReport) -> dict[str, RetrievalResult]:
    return {result.denominator: result for result in report.runs[0].results}


def test_both_denominators_are_there_and_named(tmp_path: Path) -> None:
    found = denominators(official(tmp_path, many(tmp_path / "d.json")))
    assert list(found) == ["3 questions: no abstention, user evidence", "4 questions: no abstention"]
    with_evidence, answerable = (result.measures for result in found.values())
    assert with_evidence["recall_all@3"].mean == answerable["recall_all@3"].mean == 1.0
    # Without a gold document every recall_all is 1 and every other measure 0: the official oddity.
    assert (with_evidence["recall_any@3"].mean, answerable["recall_any@3"].mean) == (1.0, 0.75)
    assert (with_evidence["recall_all@1"].mean, answerable["recall_all@1"].mean) == (1.0, 1.0)


def test_ties_put_the_later_document_first(tmp_path: Path) -> None:
    dataset = LongMemEvalDataset(write_dataset(tmp_path / "d.json", colour_record(0, question="Unheard words")))
    official(tmp_path, dataset)
    (line,) = json_lines(tmp_path / "results" / "r" / "rankings.jsonl")
    assert line["ranked"] == [{"id": name, "score": 0.0} for name in ("filler_2", "answer_1", "filler_1")]


def test_dense_ranking_needs_nothing_prepared(tmp_path: Path) -> None:
    records = [colour_record(0)]
    records[0]["haystack_sessions"][2][0]["content"] = "  "
    report = official(
        tmp_path, LongMemEvalDataset(write_dataset(tmp_path / "d.json", *records)), memory="semantic-recall"
    )
    (line,) = json_lines(tmp_path / "results" / "r" / "rankings.jsonl")
    assert line["ranked"][0]["id"] == "answer_1"
    assert {item["id"]: item["score"] for item in line["ranked"]}["filler_2"] == 0.0
    assert report.runs[0].settings.embedder_spec == "hashing:512"
    assert read_manifest(tmp_path / "results" / "r").settings.plain["retriever"] == "dense"


def test_only_the_selected_are_ranked_and_logged_in_file_order(tmp_path: Path) -> None:
    chosen = Selection(question_ids=("q2", "q0"))
    report = official(tmp_path, many(tmp_path / "d.json"), log=tmp_path / "new" / "log", selection=chosen)
    assert report.runs[0].newly_ranked == 2
    assert [line["question_id"] for line in json_lines(tmp_path / "new" / "log")] == ["q0", "q2"]


def test_a_finished_run_is_logged_without_being_written_to(tmp_path: Path) -> None:
    dataset = many(tmp_path / "d.json")
    first = official(tmp_path, dataset)
    before = tree(tmp_path / "results")
    again = official(tmp_path, dataset, log=tmp_path / "log")
    assert tree(tmp_path / "results") == before
    assert again.runs[0].results == first.runs[0].results
    assert len(json_lines(tmp_path / "log")) == 5


def test_a_log_that_fails_leaves_nothing_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(OSError, match="log"):
        official(tmp_path, many(tmp_path / "d.json"), log=tmp_path / "log")
    assert not (tmp_path / ".log.tmp").exists()


def test_empty_haystack_ranks_nothing(tmp_path: Path) -> None:
    empty = colour_record(0, haystack_dates=[], haystack_session_ids=[], haystack_sessions=[])
    dataset = LongMemEvalDataset(write_dataset(tmp_path / "d.json", empty))
    found = denominators(official(tmp_path, dataset))
    assert found["0 questions: no abstention, user evidence"].measures["recall_any@5"].mean is None
    at_five = found["1 question: no abstention; 1 without turn labels have no value"].measures
    assert {at_five[f"{name}@5"].mean for name in ("recall_any", "recall_all", "ndcg_official")} == {None}


def unlabelled(path: Path) -> LongMemEvalDataset:
    """Two questions with labels, three of which nobody said where the evidence is."""
    records = [colour_record(number) for number in range(5)]
    for one in records[2:]:
        del one["haystack_sessions"][1][0]["has_answer"]
    # Labelled, to say that no turn is the evidence: the official code finds all of nothing.
    records[1]["haystack_sessions"][1][0]["has_answer"] = False
    return LongMemEvalDataset(write_dataset(path, *records))


@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_questions_without_labels_have_no_value_and_are_named(tmp_path: Path, granularity: Granularity) -> None:
    dataset = unlabelled(tmp_path / "d.json")
    report = official(tmp_path, dataset, granularity, log=tmp_path / "log")
    found = denominators(report)
    named = "5 questions: no abstention; 3 without turn labels have no value"
    assert list(found) == ["1 question: no abstention, user evidence", named]
    for name, mean in found[named].measures.items():
        assert (mean.n, mean.undefined) == (2, 3)
        assert mean.mean is not None
        assert mean.mean >= 0.5 if name.startswith("recall_all") else mean.mean <= 0.5
    note = next(one for one in retrieval_footnotes(report) if "labels" in one)
    assert "without a value: q2, q3, q4. " in note
    logged = {line["question_id"]: line["retrieval_results"]["metrics"] for line in json_lines(tmp_path / "log")}
    assert [name for name, metrics in logged.items() if metrics["session"]] == ["q0", "q1"]
    folder = tmp_path / "results" / "r"
    assert set(checked(folder, dataset)) == {None}


def test_where_nobody_labelled_anything_there_is_no_figure(tmp_path: Path) -> None:
    records = [colour_record(number) for number in range(9)]
    for one in records:
        del one["haystack_sessions"][1][0]["has_answer"]
    report = official(tmp_path, LongMemEvalDataset(write_dataset(tmp_path / "d.json", *records)))
    assert {mean.mean for result in report.runs[0].results for mean in result.measures.values()} == {None}
    note = next(one for one in retrieval_footnotes(report) if "labels" in one)
    assert "q0, q1, q2, q3, q4 and 4 more. " in note


@pytest.mark.parametrize(("count", "whose"), [(1, "the first question"), (5, "the first 3 questions")])
def test_bm25_is_held_against_rank_bm25_in_every_run_and_the_footnote_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, whose: str
) -> None:
    compared: list[int] = []
    get_scores = BM25Okapi.get_scores

    def counted(library: BM25Okapi, query: Sequence[str]) -> NDArray[np.float64]:
        compared.append(len(query))
        return get_scores(library, query)

    monkeypatch.setattr(BM25Okapi, "get_scores", counted)
    dataset = LongMemEvalDataset(write_dataset(tmp_path / "d.json", *map(colour_record, range(count))))
    library = f"rank-bm25 {version('rank-bm25')}"
    told = f"BM25 is our own code; its scores of {whose} equal those of {library} bit for bit (compared in this run)."
    for times in (1, 2):
        # Also a run that is finished already: what is shown was compared by this installation.
        report = official(tmp_path, dataset)
        assert len(compared) == min(3, count) * times
        assert told in retrieval_footnotes(report)


def test_other_scores_than_those_of_rank_bm25_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    get_scores = BM25Okapi.get_scores
    monkeypatch.setattr(BM25Okapi, "get_scores", lambda self, query: np.nextafter(get_scores(self, query), 1e9))
    dataset = LongMemEvalDataset(write_dataset(tmp_path / "d.json", colour_record(0)))
    with pytest.raises(
        IntegrityError, match=r"differ from those of the installed rank-bm25 .*'q0'.*Install rank-bm25 0\.2\.2"
    ):
        official(tmp_path, dataset)


def test_a_dense_ranking_has_no_word_of_bm25(tmp_path: Path) -> None:
    dataset = LongMemEvalDataset(write_dataset(tmp_path / "d.json", colour_record(0)))
    report = official(tmp_path, dataset, memory="semantic-recall")
    assert not any("BM25" in note for note in retrieval_footnotes(report))


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ("last-k", r"does not rank by 'last-k'\. Valid: bm25, semantic-recall"),
        (resolve_configuration("semantic-recall", ["top_k=3"]), "only has the parameters"),
    ],
)
def test_other_memories_are_refused(tmp_path: Path, memory: MemoryConfiguration | str, told: str) -> None:
    with pytest.raises(HarnessError, match=told):
        official(tmp_path, many(tmp_path / "d.json"), memory=memory)
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_verify_recomputes(tmp_path: Path, granularity: Granularity) -> None:
    dataset = many(tmp_path / "d.json")
    official(tmp_path, dataset, granularity)
    folder = tmp_path / "results" / "r"
    outcomes = list(checked(folder, dataset))
    assert (len(outcomes), set(outcomes)) == (11, {None})
    journal = folder / "rankings.jsonl"
    journal.write_text(journal.read_text().replace("answer_", "noans_", 1))
    problems = [outcome for outcome in checked(folder, dataset) if outcome]
    assert len(problems) == 1
    assert "gives other figures" in problems[0]
