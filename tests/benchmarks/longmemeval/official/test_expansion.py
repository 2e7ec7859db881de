"""Index expansion under the official protocol: known corpora, worked out by hand from the official code's rules."""

import json
from pathlib import Path
from typing import Any

import pytest
from rank_bm25 import BM25Okapi

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.retrieval.ranking_run import RetrievalReport
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.report.tables.retrieval import retrieval_footnotes
from longmemeval.results.formats.export_trec import export_trec
from longmemeval.results.manifest import read_manifest
from tests.pipeline.helpers import checked, folders_in, painted_keys
from tests.server import ModelServer
from tests.support import json_lines, record, write_dataset

PAINTED = "I painted my bicycle green today. Any tips?"
FACTS = ("expansion=fact", "expansion_level=turn")


@pytest.fixture
def dataset(tmp_path: Path) -> LongMemEvalDataset:
    """One question; the turns of its corpus are filler_1_1, answer_1_1, noans_1_3 and filler_2_1."""
    one = record()
    one["haystack_sessions"][1].append({"role": "user", "content": "Thanks.", "has_answer": False})
    return LongMemEvalDataset(write_dataset(tmp_path / "small.json", one))


def cache_file(folder: Path, content: object, method: str = "turn-userfact") -> Path:
    path = folder / f"data.json.{method}.json"
    path.write_text(json.dumps(content))
    return path


def official(
    folder: Path,
    dataset: LongMemEvalDataset,
    *overrides: str,
    cache: Path | None = None,
    granularity: str = "turn",
    memory: str = "bm25",
) -> RetrievalReport:
    configuration = resolve_configuration(memory, overrides)
    options = RetrievalOptions(
        protocol="official",
        granularity="turn" if granularity == "turn" else "session",
        run_id="r",
        log=folder / "log",
        expansion_cache=cache,
    )
    return retrieve(dataset, [configuration], options=options, folders=folders_in(folder))


def logged(folder: Path) -> dict[str, Any]:
    (line,) = json_lines(folder / "log")
    results: dict[str, Any] = line["retrieval_results"]
    return results


def ranked_texts(folder: Path) -> list[tuple[str, str]]:
    return sorted((item["corpus_id"], item["text"]) for item in logged(folder)["ranked_items"])


def test_merge_drops_empty_lists_and_passes_over_noans(tmp_path: Path, dataset: LongMemEvalDataset) -> None:
    facts = {"1_1": ["Bike emerald", 7], "1_3": ["User is polite"], "filler_1_1": [], "filler_2_1": None}
    official(tmp_path, dataset, *FACTS, cache=cache_file(tmp_path, facts))
    joined = [
        ("answer_1_1", f"Bike emerald 7 {PAINTED}"),
        ("filler_2_1", " Name three rivers in France."),
        ("noans_1_3", "Thanks."),
    ]
    assert ranked_texts(tmp_path) == joined
    (line,) = json_lines(tmp_path / "results" / "r" / "rankings.jsonl")
    in_corpus_order = [joined[0], joined[2], joined[1]]
    library = BM25Okapi([text.split(" ") for _, text in in_corpus_order])
    scores = library.get_scores(["What", "colour", "is", "my", "bicycle?"])
    names = [name for name, _ in in_corpus_order]
    assert {item["id"]: item["score"] for item in line["ranked"]} == dict(zip(names, scores, strict=True))


def test_replace_leaves_the_expansion_alone(tmp_path: Path, dataset: LongMemEvalDataset) -> None:
    facts = {"1_1": "A bicycle is green", "filler_1_1": ["Eggs", "Water"]}
    official(tmp_path, dataset, *FACTS, "expansion_join=replace", cache=cache_file(tmp_path, facts))
    assert ranked_texts(tmp_path) == [
        ("answer_1_1", "A bicycle is green"),
        ("filler_1_1", "Eggs Water"),
        ("filler_2_1", ""),
        ("noans_1_3", "Thanks."),
    ]


def test_evidence_that_vanishes_scores_recall_all(tmp_path: Path, dataset: LongMemEvalDataset) -> None:
    report = official(tmp_path, dataset, *FACTS, cache=cache_file(tmp_path, {"1_1": []}))
    for result in report.runs[0].results:
        assert result.denominator.startswith("1 question:")
        at_five = [result.measures[f"{name}@5"].mean for name in ("recall_any", "recall_all", "ndcg_official")]
        assert at_five == [0.0, 1.0, 0.0]
    assert logged(tmp_path)["metrics"]["turn"]["recall_all@1"] == 1.0


def test_separate_brings_expansions_of_noans_in_as_gold(tmp_path: Path, dataset: LongMemEvalDataset) -> None:
    facts = {"1_1": ["my bicycle? green"], "1_3": ["What colour is my thanks"], "filler_1_1": []}
    report = official(tmp_path, dataset, *FACTS, "expansion_join=separate", cache=cache_file(tmp_path, facts))
    assert ranked_texts(tmp_path) == [
        ("answer_1_1", PAINTED),
        ("answer_1_1", "my bicycle? green"),
        ("answer_1_3", "What colour is my thanks"),
        ("filler_1_1", "How do I boil an egg?"),
        ("filler_2_1", ""),
        ("filler_2_1", "Name three rivers in France."),
        ("noans_1_3", "Thanks."),
    ]
    items = logged(tmp_path)["ranked_items"]
    assert [item["timestamp"] for item in items if item["corpus_id"] == "answer_1_3"] == ["2023/05/21 (Sun) 10:00"]
    # "What colour is my thanks" shares four words with the question, "my bicycle? green" two.
    assert [item["corpus_id"] for item in items[:2]] == ["answer_1_3", "answer_1_1"]
    assert logged(tmp_path)["metrics"]["turn"]["recall_all@3"] == 1.0
    (note,) = [note for note in retrieval_footnotes(report) if "turn-userfact, separate" in note]
    assert "count as gold" in note
    exported = export_trec("r", folders=folders_in(tmp_path))
    assert Path(exported.qrels_file).read_text() == "q1 0 answer_1_1 1\nq1 0 answer_1_3 1\n"
    documents = [line.split()[2] for line in Path(exported.run_file).read_text().splitlines()]
    assert sorted(documents) == ["answer_1_1", "answer_1_3", "filler_1_1", "filler_2_1", "noans_1_3"]


def test_a_session_held_twice_is_expanded_twice(tmp_path: Path) -> None:
    one = record()
    one["haystack_session_ids"][2] = "filler_1"
    one["haystack_sessions"][2] = one["haystack_sessions"][0]
    twice = LongMemEvalDataset(write_dataset(tmp_path / "d.json", one))
    cache = cache_file(tmp_path, {"filler_1": "Eggs", "1": "Bike; paint"}, "session-keyphrase")
    official(tmp_path, twice, "expansion=keyphrase", "expansion_level=session", cache=cache, granularity="session")
    assert ranked_texts(tmp_path) == [
        ("answer_1", f"Bike; paint {PAINTED}"),
        ("filler_1", "Eggs Eggs How do I boil an egg?"),
        ("filler_1", "Eggs Eggs How do I boil an egg?"),
    ]


def test_facts_of_sessions_find_no_turn(tmp_path: Path, dataset: LongMemEvalDataset) -> None:
    cache = cache_file(tmp_path, {"1": [], "filler_1": ["F"]}, "session-userfact")
    official(tmp_path, dataset, "expansion=fact", "expansion_level=session", cache=cache)
    assert [name for name, _ in ranked_texts(tmp_path)] == ["answer_1_1", "filler_1_1", "filler_2_1", "noans_1_3"]


def test_expansions_of_the_preparation(tmp_path: Path, dataset: LongMemEvalDataset) -> None:
    folders = folders_in(tmp_path)
    with ModelServer(painted_keys) as server:
        options = PrepareOptions(expansion_model="openai/local", api_base=server.url)
        prepare(dataset, [resolve_configuration("bm25", FACTS)], options=options, folders=folders)
    report = official(tmp_path, dataset, *FACTS)
    # The one turn about painting has a fact; of the others lists are empty, and noans is not met.
    assert ranked_texts(tmp_path) == [
        ("answer_1_1", f"I painted my bicycle green today. {PAINTED}"),
        ("noans_1_3", "Thanks."),
    ]
    manifest = read_manifest(tmp_path / "results" / "r")
    assert manifest.settings.plain["expansion"] == {
        "method": "turn-userfact",
        "join": "merge",
        "preparation": "default",
    }
    assert "expansions-fact-turn" in manifest.fixtures["q1"]
    assert any("takes its document out of the corpus" in note for note in retrieval_footnotes(report))


def test_dense_ranking_takes_expansions_too(tmp_path: Path, dataset: LongMemEvalDataset) -> None:
    cache = cache_file(tmp_path, {"filler_2_1": ["What colour is my bicycle?"]})
    official(
        tmp_path,
        dataset,
        *FACTS,
        "expansion_join=replace",
        "retriever=dense",
        cache=cache,
        memory="semantic-recall",
    )
    assert logged(tmp_path)["ranked_items"][0]["corpus_id"] == "filler_2_1"


def test_resumed_with_the_same_cache_only_and_verified(tmp_path: Path, dataset: LongMemEvalDataset) -> None:
    cache = cache_file(tmp_path, {"1_1": ["F"]})
    first = official(tmp_path, dataset, *FACTS, cache=cache)
    again = official(tmp_path, dataset, *FACTS, cache=cache)
    assert (first.runs[0].newly_ranked, again.runs[0].newly_ranked) == (1, 0)
    assert again.runs[0].results == first.runs[0].results
    folder = tmp_path / "results" / "r"
    assert set(checked(folder, dataset)) == {None}
    with pytest.raises(HarnessError, match=r"started with other settings: settings\.expansion\.cache_sha256"):
        official(tmp_path, dataset, *FACTS, cache=cache_file(tmp_path, {"1_1": ["G"]}))


def test_without_expansion_no_word_of_it(tmp_path: Path, dataset: LongMemEvalDataset) -> None:
    report = official(tmp_path, dataset)
    assert "expansion" not in read_manifest(tmp_path / "results" / "r").settings.plain
    assert not any("xpansion" in note for note in retrieval_footnotes(report))


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (("expansion=event", "expansion_level=session"), "no expansion of kind 'event' at level 'session'"),
        (("expansion=summary",), r"kind 'summary' at level 'turn'.*expansion_level=session"),
        (("expansion=summary", "expansion_level=session"), r"'session-summ' with sessions only.*--granularity session"),
        (FACTS, r"not prepared.*prepare .*--set expansion=fact --expansion-model MODEL"),
        ((*FACTS, "top_k=3"), "only has the parameters expansion, expansion_level, expansion_join"),
    ],
)
def test_what_cannot_be_joined_is_refused(
    tmp_path: Path, dataset: LongMemEvalDataset, overrides: tuple[str, ...], told: str
) -> None:
    with pytest.raises(HarnessError, match=told):
        official(tmp_path, dataset, *overrides)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("content", "method", "told"),
    [
        ({}, "session-userfact", "By its name, the expansion cache is not for 'turn-keyphrase'"),
        ([], "turn-keyphrase", "does not have the form that the official scripts write"),
        ({"a_1": 3}, "turn-keyphrase", r"does not have the form .*\$\[\.\.\.\]"),
        (
            {"a_1": ["x", "y"]},
            "turn-keyphrase",
            r"entry 'a_1' is a list of 2, but an expansion 'turn-keyphrase' is one text",
        ),
    ],
)
def test_a_cache_of_another_kind_is_refused(
    tmp_path: Path, dataset: LongMemEvalDataset, content: object, method: str, told: str
) -> None:
    with pytest.raises(HarnessError, match=told):
        official(tmp_path, dataset, "expansion=keyphrase", cache=cache_file(tmp_path, content, method))


def test_a_cache_that_nothing_reads_is_refused(tmp_path: Path, dataset: LongMemEvalDataset) -> None:
    cache = tmp_path / "turn-userfact.json"
    with pytest.raises(HarnessError, match="cannot be read"):
        official(tmp_path, dataset, *FACTS, cache=cache)
    with pytest.raises(HarnessError, match=r"does not use any.*--set expansion=KIND"):
        official(tmp_path, dataset, cache=cache)
    memory: MemoryConfiguration = resolve_configuration("bm25", FACTS)
    options = RetrievalOptions(expansion_cache=cache)
    with pytest.raises(HarnessError, match="--protocol official"):
        retrieve(dataset, [memory], options=options, folders=folders_in(tmp_path))
