"""`retrieval` by the standard protocol: known figures, gold by level, runs that are continued, faults."""

import json
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longmemeval.benchmarks.longmemeval.loader import LongMemEvalDataset
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.dataset import Dataset
from longmemeval.errors import FixtureError, HarnessError, IntegrityError
from longmemeval.measures.notation import Granularity, RetrievalResult
from longmemeval.memory.definition import MemoryDefinition
from longmemeval.memory.items import Hit, message_item
from longmemeval.memory.parameters import Parameters
from longmemeval.memory.protocol import MemoryTools
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.ranking.history import RankedUnit
from longmemeval.records import Question, Recall, RecalledItem
from longmemeval.results.manifest import read_manifest
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from longmemeval.storage.fixture import Fixture
from longmemeval.storage.messages_part import MESSAGES
from tests.benchmarks.locomo.test_loader import make_conversation, open_conversations
from tests.conftest import real_file
from tests.pipeline.helpers import add_memory, checked, colour_record, folders_in, prepared_colours
from tests.support import json_lines, record, tree, write_dataset


class Fixed:
    """A memory that ranks as it is told: question id -> groups of message ids; each group is one unit."""

    def __init__(self, orders: Callable[[str], Sequence[Sequence[str]]]) -> None:
        self._orders = orders

    def rank(self, question: Question, fixture: Fixture) -> list[RankedUnit]:
        groups = self._orders(question.question_id)
        return [
            RankedUnit(group[0], group[0].rpartition(":")[0], tuple(group), -float(place))
            for place, group in enumerate(groups)
        ]

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        raise AssertionError("a memory that can rank is asked to rank")


def raise_error(error: Exception) -> None:
    raise error


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], Sequence[Sequence[str]]]], str]:
    """Makes a preset of such a memory and says its name."""

    def make(orders: Callable[[str], Sequence[Sequence[str]]]) -> str:
        def build(parameters: Parameters, tools: MemoryTools) -> Fixed:
            return Fixed(orders)

        # Its orders are made of our ids.
        told = MemoryDefinition("", Parameters, lambda parameters: (MESSAGES,), build, reads_gold=True)
        return add_memory(monkeypatch, "fixed", told)

    return make


def results(
    dataset: Dataset,
    folders: Folders,
    memory: str = "last-k",
    *,
    granularity: Granularity | None = None,
    measures: tuple[str, ...] = (),
    cutoffs: tuple[int, ...] = (),
) -> tuple[RetrievalResult, ...]:
    options = RetrievalOptions(granularity=granularity, measures=measures, cutoffs=cutoffs, run_id="r")
    return retrieve(dataset, [memory], options=options, folders=folders).runs[0].results


def means(result: RetrievalResult) -> dict[str, float | None]:
    return {name: mean.mean for name, mean in result.measures.items()}


def rankings(folders: Folders, run_id: str = "r") -> dict[str, list[str]]:
    lines = json_lines(folders.results_dir / run_id / "rankings.jsonl")
    return {line["question_id"]: [item["id"] for item in line["ranked"]] for line in lines}


@pytest.fixture
def workspace(tmp_path: Path) -> tuple[Dataset, Folders]:
    return prepared_colours(tmp_path, 4)


def test_what_is_recalled_unranked_counts_newest_first(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    (result,) = results(dataset, folders, granularity="turn", measures=("mrr", "recall_any"), cutoffs=(3, 4))
    newest_first = ["filler_2:1", "filler_2:0", "answer_1:1", "answer_1:0", "filler_1:1", "filler_1:0"]
    assert rankings(folders) == {f"q{number}": newest_first for number in range(4)}
    assert means(result) == {"recall_any@3": 0.0, "recall_any@4": 1.0, "mrr": 0.25}
    assert (result.gold_rule, result.denominator) == ("evidence turns (any role)", "4 questions: abstention included")


def test_a_session_stands_where_its_first_turn_stands(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    (result,) = results(dataset, folders, measures=("mrr", "precision@50", "ndcg_official@1"))
    assert rankings(folders)["q0"] == ["filler_2", "answer_1", "filler_1"]
    # A cutoff beyond the three sessions is three.
    assert means(result) == {"mrr": 0.5, "precision@50": 1 / 3, "ndcg_official@1": 0.0}
    assert result.gold_rule == "answer_session_ids"


class Recalls:
    """Recalls, in this order: a document, an old turn, the second best turn, a new turn, and the best one."""

    async def recall(self, question: Question, fixture: Fixture) -> Recall:
        def turn(message_id: str, hit: Hit | None = None) -> RecalledItem:
            return message_item(fixture.memory.message(message_id), hit)

        document = RecalledItem("working-memory", "I know", None, thread_ids=("filler_1",))
        best = [turn("filler_1:1", Hit(2, 0.25)), turn("answer_1:0", Hit(1, 0.5))]
        return Recall((document, turn("filler_1:0"), best[0], turn("filler_2:1"), best[1]))


def test_ranked_items_come_before_the_others(
    workspace: tuple[Dataset, Folders], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, folders = workspace
    reads = (MESSAGES,)
    definition = MemoryDefinition(
        "", Parameters, lambda parameters: reads, lambda parameters, tools: Recalls(), reads_gold=True
    )
    add_memory(monkeypatch, "recalls", definition)
    results(dataset, folders, "recalls", granularity="turn")
    line = json_lines(folders.results_dir / "r" / "rankings.jsonl")[0]
    assert [(item["id"], item["score"]) for item in line["ranked"]] == [
        ("answer_1:0", 0.5),
        ("filler_1:1", 0.25),
        ("filler_2:1", None),
        ("filler_1:0", None),
    ]


def test_a_memory_with_vectors_ranks_by_the_embedder_of_the_fixtures(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 2, "semantic-recall")
    options = RetrievalOptions(run_id="r", granularity="turn")
    (run,) = retrieve(dataset, ["semantic-recall"], options=options, folders=folders).runs
    assert [ranked[0] for ranked in rankings(folders).values()] == ["answer_1:0", "answer_1:0"]
    assert {len(ranked) for ranked in rankings(folders).values()} == {6}
    assert run.settings.embedder_spec == "hashing:512"
    with pytest.raises(FixtureError, match="The fixtures were embedded by hashing:512"):
        retrieve(dataset, ["semantic-recall"], options=RetrievalOptions(embedder="hashing:64"), folders=folders)


def test_documents_are_no_hits(tmp_path: Path) -> None:
    dataset, folders = prepared_colours(tmp_path, 1, "working-memory")
    memory = "working-memory"
    results(dataset, folders, memory, granularity="turn")
    assert sorted(rankings(folders)["q0"]) == sorted(
        f"{name}:{i}" for name in ("filler_1", "filler_2", "answer_1") for i in (0, 1)
    )


def test_units_of_several_messages(
    workspace: tuple[Dataset, Folders], fixed: Callable[[Callable[[str], Sequence[Sequence[str]]]], str]
) -> None:
    dataset, folders = workspace
    memory = fixed(lambda question_id: [["filler_1:0", "filler_1:1"], ["answer_1:1", "answer_1:0"], ["filler_1:1"]])
    (result,) = results(dataset, folders, memory, granularity="turn", measures=("mrr",))
    assert rankings(folders)["q3"] == ["filler_1:0", "filler_1:1", "answer_1:1", "answer_1:0"]
    assert means(result) == {"mrr": 0.25}


def test_oracle_gets_gold_and_none_finds_nothing(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    report = retrieve(dataset, ["oracle", "none"], options=RetrievalOptions(run_id="r"), folders=folders)
    oracle, none = report.runs
    assert (oracle.run_id, none.run_id) == ("r-oracle", "r-none")
    assert (oracle.settings.reads_gold, none.settings.reads_gold) == (True, False)
    assert means(oracle.results[0])["recall_any@5"] == 1.0
    assert set(means(none.results[0]).values()) == {0.0}


def test_questions_without_gold_have_no_value_and_are_counted(tmp_path: Path) -> None:
    changed = [colour_record(number) for number in range(3)]
    changed[1]["answer_session_ids"] = []
    dataset = LongMemEvalDataset(write_dataset(tmp_path / "d.json", *changed))
    folders = folders_in(tmp_path)
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    (result,) = results(dataset, folders, measures=("recall_all@2",))
    mean = result.measures["recall_all@2"]
    assert (mean.mean, mean.n, mean.undefined) == (1.0, 2, 1)
    assert result.denominator == "3 questions: abstention included; 1 without evidence have no value"


def test_empty_haystack_finds_nothing(tmp_path: Path) -> None:
    empty = record("q1", haystack_dates=[], haystack_session_ids=[], haystack_sessions=[])
    dataset, folders = LongMemEvalDataset(write_dataset(tmp_path / "d.json", empty)), folders_in(tmp_path)
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    (result,) = results(dataset, folders, measures=("recall@5", "precision@5", "mrr", "ndcg@5"))
    assert rankings(folders) == {"q1": []}
    assert set(means(result).values()) == {0.0}


def test_locomo_official_and_strict(
    tmp_path: Path, fixed: Callable[[Callable[[str], Sequence[Sequence[str]]]], str]
) -> None:
    dataset, folders = open_conversations(tmp_path, make_conversation()), folders_in(tmp_path)
    memory = fixed(lambda question_id: [["session_10:0"], ["session_2:1"], ["session_2:0"], ["session_10:2"]])
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    official, strict = results(dataset, folders, memory)
    assert (official.gold_rule, strict.gold_rule) == ("locomo official", "locomo strict (repaired evidence)")
    # Raw: one of two strings; a malformed one; none at all; one of three; the only one.
    by_type = {"single-hop": 0.333, "multi-hop": 0.5, "temporal": 0.0, "open-domain": 0.0, "adversarial": 1.0}
    assert {name: measures["recall@5"].mean for name, measures in official.by_type.items()} == by_type
    assert list(official.by_type) == list(by_type)
    assert official.measures["recall@50"].mean == pytest.approx((0.333 + 0.5 + 1) / 5)
    assert official.denominator == "5 questions: all categories, those without evidence counted as 0"
    # Repaired: both turns; the third turn of session 10; nothing; the one turn that exists; the only one.
    assert [strict.measures["recall@5"].mean, strict.measures["recall@5"].n] == [1.0, 4]
    assert strict.denominator == "5 questions: all categories; 1 without evidence have no value"
    at_two = results(dataset, folders, memory, measures=("recall@2", "mrr"))
    assert means(at_two[0]) == {"recall@2": pytest.approx((0.5 + 1) / 5)}
    assert means(at_two[1]) == {
        "recall@2": pytest.approx((1 + 1) / 4),
        "mrr": pytest.approx((1 + 1 / 4 + 1 / 3 + 1 / 2) / 4),
    }


def test_locomo_sessions_are_found_by_their_number(
    tmp_path: Path, fixed: Callable[[Callable[[str], Sequence[Sequence[str]]]], str]
) -> None:
    dataset, folders = open_conversations(tmp_path, make_conversation()), folders_in(tmp_path)
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    memory = fixed(lambda question_id: [["session_10:1"], ["session_1:0"], ["session_2:1"]])
    official, strict = results(dataset, folders, memory, granularity="session", measures=("recall@1",))
    assert rankings(folders)["conv-1/q0"] == ["session_10", "session_1", "session_2"]
    # Raw evidence goes by what stands before the first colon: D10:1 twice (one with more behind it); `D:10:3` is lost.
    assert [measures["recall@1"].mean for measures in official.by_type.values()] == [0.333, 1.0, 0.0, 0.0, 0.0]
    assert strict.measures["recall@1"].mean == pytest.approx((0.5 + 1 + 0 + 0) / 4)


@pytest.mark.slow
def test_perfect_rankings_of_locomo_reach_its_known_ceilings(
    tmp_path: Path, fixed: Callable[[Callable[[str], Sequence[Sequence[str]]]], str]
) -> None:
    dataset, folders = load_dataset(real_file("locomo10.json")), folders_in(tmp_path)
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    memory = fixed(lambda question_id: [[turn] for turn in dataset.gold(question_id).evidence_turns])
    official, strict = results(dataset, folders, memory, measures=("recall@50",))
    assert official.denominator.startswith("1,986 questions")
    assert round(100 * (official.measures["recall@50"].mean or 0), 2) == 99.50
    ceilings = [round(100 * (measures["recall@50"].mean or 0), 2) for measures in official.by_type.values()]
    assert ceilings == [99.96, 99.43, 99.69, 92.71, 100.0]
    assert (strict.measures["recall@50"].mean, strict.measures["recall@50"].n) == (1.0, 1982)


@pytest.mark.slow
def test_finished_runs_are_scored_again_and_not_written_to(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    first = results(dataset, folders, measures=("mrr",))
    before = tree(folders.results_dir)
    assert results(dataset, folders, measures=("mrr",)) == first
    assert tree(folders.results_dir) == before
    assert list(means(results(dataset, folders, measures=("recall@1",))[0])) == ["recall@1"]
    changed = {name for name, data in tree(folders.results_dir).items() if before[name] != data}
    assert changed == {"r/metrics/retrieval-session.json"}


@pytest.mark.parametrize(
    ("stop", "error", "status"),
    [
        (lambda: raise_error(FixtureError("the index is broken")), FixtureError, "failed"),
        (lambda: signal.raise_signal(signal.SIGINT), KeyboardInterrupt, "interrupted"),
    ],
)
def test_a_run_that_stops_keeps_what_it_ranked_and_goes_on(
    workspace: tuple[Dataset, Folders],
    fixed: Callable[[Callable[[str], Sequence[Sequence[str]]]], str],
    stop: Callable[[], None],
    error: type[BaseException],
    status: str,
) -> None:
    dataset, folders = workspace
    asked: list[str] = []

    def stops_at_q2(question_id: str) -> Sequence[Sequence[str]]:
        asked.append(question_id)
        if question_id == "q2" and asked.count("q2") == 1:
            stop()
        return [["answer_1:0"]]

    memory = fixed(stops_at_q2)
    with pytest.raises(error):
        results(dataset, folders, memory)
    assert read_manifest(folders.results_dir / "r").status == status
    assert list(rankings(folders)) == ["q0", "q1"]
    (result,) = results(dataset, folders, memory)
    assert asked == ["q0", "q1", "q2", "q2", "q3"]
    assert (result.measures["mrr"].mean, result.measures["mrr"].n) == (1.0, 4)
    assert read_manifest(folders.results_dir / "r").status == "completed"


def test_rankings_that_were_changed_are_refused(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    results(dataset, folders)
    journal = folders.results_dir / "r" / "rankings.jsonl"
    journal.write_text(journal.read_text().replace("filler_2", "answer_1", 1))
    with pytest.raises(IntegrityError, match=r"rankings\.jsonl was changed"):
        results(dataset, folders)


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    whole = results(dataset, folders)
    folder = folders.results_dir / "r"
    journal, manifest = folder / "rankings.jsonl", json.loads((folder / "run.json").read_text())
    ranked = journal.read_bytes()
    journal.write_bytes(ranked[: ranked.index(b"\n") + 20])
    (folder / "run.json").write_text(json.dumps(manifest | {"status": "running", "files": {}}))
    report = retrieve(dataset, ["last-k"], options=RetrievalOptions(run_id="r"), folders=folders)
    assert report.runs[0].newly_ranked == 3
    assert report.runs[0].results == whole
    assert journal.read_bytes() == ranked
    assert read_manifest(folder).status == "completed"


@pytest.mark.slow
def test_other_settings_are_another_run(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    results(dataset, folders)
    with pytest.raises(HarnessError, match=r"settings\.granularity: was 'session', now 'turn'"):
        results(dataset, folders, granularity="turn")
    with pytest.raises(HarnessError, match="questions: was"):
        retrieve(
            dataset, ["last-k"], selection=Selection(limit=2), options=RetrievalOptions(run_id="r"), folders=folders
        )


def test_a_broken_fixture_stops_with_its_error(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    part = folders.prepared_dir / "colours" / "default" / "q2" / "db.json"
    part.write_text(part.read_text().replace("eggs", "EGGS"))
    with pytest.raises(FixtureError, match="Part 'db' is damaged"):
        results(dataset, folders)
    assert list(rankings(folders)) == ["q0", "q1"]


def test_nothing_is_begun_when_a_later_memory_is_not_prepared(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    with pytest.raises(FixtureError, match="lacks part 'vector'"):
        retrieve(dataset, ["last-k", "semantic-recall"], options=RetrievalOptions(run_id="r"), folders=folders)
    assert not folders.results_dir.exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"protocol": "oficial"}, "Unknown retrieval protocol 'oficial'.*Did you mean 'official'"),
        ({"granularity": "trun"}, "Unknown retrieval granularity 'trun'.*Did you mean 'turn'"),
        ({"measures": ("recal@5",)}, "Unknown measure 'recal@5'.*Did you mean 'recall@k'"),
        ({"measures": ("recall@0",)}, "needs a cutoff"),
        ({"measures": ("mrr",), "cutoffs": (3,)}, "No measure takes the cutoffs"),
        ({"protocol": "official", "cutoffs": (3,)}, "its own measures and cutoffs"),
        ({"log": Path("x")}, "--log writes the official log"),
        ({"run_id": "a/b"}, "cannot be a run id"),
    ],
)
def test_bad_options(workspace: tuple[Dataset, Folders], options: dict[str, Any], told: str) -> None:
    dataset, folders = workspace
    with pytest.raises(HarnessError, match=told):
        retrieve(dataset, ["last-k"], options=RetrievalOptions(**options), folders=folders)
    assert not folders.results_dir.exists()


def test_verify_recomputes(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    results(dataset, folders)
    folder = folders.results_dir / "r"

    def problems() -> list[str]:
        return [problem for problem in checked(folder, dataset) if problem]

    assert problems() == []
    metrics = folder / "metrics" / "retrieval-session.json"
    good = metrics.read_bytes()
    document = json.loads(good)
    document[0]["measures"]["mrr"]["mean"] = 0.75
    metrics.write_text(json.dumps(document))
    assert problems() == [
        "metrics/retrieval-session.json: rankings.jsonl gives other figures (0.measures.mrr.mean: was 0.75, now 0.5)"
    ]
    metrics.write_bytes(good)
    journal = folder / "rankings.jsonl"
    first, *others = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([first, first, *others[:-1]]))
    assert problems() == [
        "rankings.jsonl: question 'q0' is ranked twice",
        "metrics/retrieval-session.json: rankings.jsonl lacks question 'q3'",
    ]


def test_locomo_verifies_too(tmp_path: Path) -> None:
    dataset, folders = open_conversations(tmp_path, make_conversation()), folders_in(tmp_path)
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    results(dataset, folders)
    folder = folders.results_dir / "r"
    outcomes = list(checked(folder, dataset))
    assert (len(outcomes), set(outcomes)) == (11, {None})


@pytest.mark.slow
def test_runs_without_a_name_get_their_own(workspace: tuple[Dataset, Folders]) -> None:
    dataset, folders = workspace
    names = {retrieve(dataset, ["last-k"], folders=folders).runs[0].run_id for _ in range(2)}
    assert len(names) == 2
    assert all(name.startswith("colours_last-k_retrieval-session_") for name in names)


def test_question_types_come_in_the_official_order(tmp_path: Path) -> None:
    kinds = ("temporal-reasoning", "single-session-user")
    records = [colour_record(number, question_type=kind) for number, kind in enumerate(kinds)]
    dataset, folders = LongMemEvalDataset(write_dataset(tmp_path / "d.json", *records)), folders_in(tmp_path)
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    (result,) = results(dataset, folders)
    assert list(result.by_type) == ["single-session-user", "temporal-reasoning"]
    stored = msgspec.json.decode((folders.results_dir / "r" / "metrics" / "retrieval-session.json").read_bytes())
    assert stored[0]["gold"] == "answer_session_ids"
