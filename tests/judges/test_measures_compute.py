from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.errors import HarnessError
from longmemeval.measures import (
    MEASURES,
    Measure,
    mrr,
    ndcg,
    ndcg_official,
    precision,
    recall,
    recall_all,
    recall_any,
)
from longmemeval.measures.compute import EmptyGold, compute, dcg_official

CORPUS = ["a", "b", "c", "d"]
GOLD: dict[str, list[str]] = {"empty": [], "partial": ["a", "b"], "full": CORPUS}
RANKED: dict[str, list[str]] = {"empty": [], "partial": ["c", "b"], "full": ["c", "b", "a", "d"]}
# By hand, at k = 3, in the order of MEASURES. Partial gold {a, b}: the ideal is 1 + 1/log2(3), officially 1 + 1.
# Full gold: 1 + 1/log2(3) + 1/2, officially 1 + 1 + 1/log2(3).
SECOND, THIRD = 1 / log2(3), 1 / 2
TABLE: list[tuple[str, str, tuple[float, ...]]] = [
    ("partial", "empty", (0, 0, 0, 0, 0, 0, 0)),
    ("partial", "partial", (1, 0, 1 / 2, 1 / 3, 1 / 2, SECOND / (1 + SECOND), 1 / 2)),
    ("partial", "full", (1, 1, 1, 2 / 3, 1 / 2, (SECOND + THIRD) / (1 + SECOND), (1 + SECOND) / 2)),
    ("full", "empty", (0, 0, 0, 0, 0, 0, 0)),
    ("full", "partial", (1, 0, 2 / 4, 2 / 3, 1, (1 + SECOND) / (1 + SECOND + THIRD), 2 / (2 + SECOND))),
    ("full", "full", (1, 0, 3 / 4, 1, 1, 1, 1)),
]


OF_LABELS = [name for name, kind in MEASURES.items() if not kind.of_changes]
"""Measures of the labelled evidence; tests/benchmarks/factconsolidation has those of changes."""


def test_measures_of_changes_are_not_computed_from_evidence() -> None:
    with pytest.raises(HarnessError, match="which messages overrule which"):
        compute(Measure("stale_first"), ["a"], ["a"])


def at(name: str, cutoff: int = 3) -> Measure:
    return Measure(name, cutoff if MEASURES[name].has_cutoff else None)


@pytest.mark.parametrize("name", OF_LABELS)
@pytest.mark.parametrize(("gold", "ranked", "values"), TABLE)
def test_with_gold(gold: str, ranked: str, values: tuple[float, ...], name: str) -> None:
    expected = dict(zip(OF_LABELS, values, strict=True))[name]
    assert compute(at(name), RANKED[ranked], GOLD[gold], CORPUS) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", OF_LABELS)
@pytest.mark.parametrize("ranked", RANKED)
def test_without_gold(ranked: str, name: str) -> None:
    def value(empty_gold: EmptyGold) -> float | None:
        return compute(at(name), RANKED[ranked], [], CORPUS, empty_gold=empty_gold)

    official = {"recall_any": 0.0, "recall_all": 1.0, "ndcg_official": 0.0}
    assert value("undefined") is None
    assert value("zero") == 0.0
    assert value("official") == official.get(name)
    assert compute(at(name), RANKED[ranked], [], CORPUS) is None


@pytest.mark.parametrize("name", OF_LABELS)
@pytest.mark.parametrize("cutoff", [4, 5, 1000])
def test_a_cutoff_beyond_the_corpus_is_the_corpus(name: str, cutoff: int) -> None:
    ranked = ["d", "a", "c", "b"]
    assert compute(at(name, cutoff), ranked, ["a"], CORPUS) == compute(at(name, 4), ranked, ["a"], CORPUS)


def test_without_a_corpus_precision_divides_by_the_cutoff() -> None:
    assert compute(precision @ 10, ["a", "b"], ["a", "b"]) == 0.2
    assert compute(precision @ 10, ["a", "b"], ["a", "b"], ["a", "b"]) == 1.0


@pytest.mark.parametrize("name", OF_LABELS)
def test_an_empty_corpus_finds_nothing(name: str) -> None:
    assert compute(at(name), [], ["a"], []) == 0.0


def test_only_the_first_occurrence_of_a_ranked_id_counts() -> None:
    ranked, gold = ["a", "a", "b"], ["a", "b"]
    assert compute(recall_any @ 2, ranked, gold) == 1.0
    assert compute(recall_all @ 2, ranked, gold) == 0.0
    assert compute(recall @ 2, ranked, gold) == 0.5
    assert compute(precision @ 3, ranked, gold) == pytest.approx(2 / 3)
    assert compute(ndcg @ 3, ranked, gold) == pytest.approx((1 + 1 / 2) / (1 + 1 / log2(3)))


def test_every_item_of_a_repeated_id_counts_officially() -> None:
    # Two documents with the id "a": ranked 1 and 3 of the ideal 1 and 2.
    assert compute(ndcg_official @ 3, ["a", "x", "a"], ["a"], ["a", "a", "x"]) == (1 + 1 / log2(3)) / 2
    # An id that the corpus holds twice and the ranking once, and the reverse.
    assert compute(ndcg_official @ 2, ["a", "x"], ["a"], ["a", "a", "x"]) == 0.5
    assert compute(ndcg_official @ 2, ["a", "a"], ["a"], ["a", "x", "y"]) == 1.0


def test_repeats_in_gold_do_not_matter() -> None:
    for measure in (recall @ 2, ndcg @ 2, recall_all @ 2):
        assert compute(measure, ["a", "b"], ["a", "a", "b"]) == 1.0


def test_gold_that_the_corpus_lacks_stays_in_the_denominator() -> None:
    assert compute(recall @ 2, ["a", "b"], ["a", "gone"], ["a", "b"]) == 0.5
    assert compute(recall_all @ 2, ["a", "b"], ["a", "gone"], ["a", "b"]) == 0.0
    assert compute(ndcg @ 2, ["a", "b"], ["a", "gone"], ["a", "b"]) == pytest.approx(1 / (1 + 1 / log2(3)))


def test_reciprocal_rank_looks_at_the_whole_ranking() -> None:
    assert compute(mrr, [*"xyzuvwa"], ["a", "w"], ["a"]) == pytest.approx(1 / 6)


def test_official_ndcg_asks_for_the_corpus() -> None:
    with pytest.raises(HarnessError, match="ndcg_official@5 needs the ids of the whole corpus"):
        compute(ndcg_official @ 5, ["a"], ["a"])


def test_official_dcg_known_answers() -> None:
    assert dcg_official([1, 1, 1], 3) == 2.6309297535714578
    assert dcg_official([1, 1, 1], 2) == 2.0
    assert dcg_official([0, 1], 5) == 1.0
    assert dcg_official([], 5) == 0.0


rankings = st.permutations([f"d{number}" for number in range(12)])
golds = st.sets(st.sampled_from([f"d{number}" for number in range(12)]), min_size=1)
cutoffs = st.integers(1, 15)


@given(ranked=rankings, gold=golds, cutoff=st.integers(2, 15))
def test_a_swap_of_ranks_1_and_2_never_changes_official_ndcg(ranked: list[str], gold: set[str], cutoff: int) -> None:
    swapped = [ranked[1], ranked[0], *ranked[2:]]
    corpus = sorted(ranked)
    measure = ndcg_official @ cutoff
    expected = compute(measure, ranked, gold, corpus)
    assert compute(measure, swapped, gold, corpus) == pytest.approx(expected, abs=1e-12)


@given(ranked=rankings, kept=st.integers(0, 12), gold=golds, cutoff=cutoffs, name=st.sampled_from(sorted(OF_LABELS)))
def test_values_are_fractions(ranked: list[str], kept: int, gold: set[str], cutoff: int, name: str) -> None:
    value = compute(at(name, cutoff), ranked[:kept], gold, ranked)
    assert value is not None
    assert 0.0 <= value <= 1.0


@given(
    ranked=rankings, gold=golds, cutoff=cutoffs, name=st.sampled_from(["ndcg", "ndcg_official", "recall_any", "mrr"])
)
def test_gold_on_top_is_perfect(ranked: list[str], gold: set[str], cutoff: int, name: str) -> None:
    best = sorted(ranked, key=lambda one: one not in gold)
    assert compute(at(name, cutoff), best, gold, ranked) == 1.0


@given(ranked=rankings, gold=golds, cutoff=cutoffs)
def test_recalls_agree(ranked: list[str], gold: set[str], cutoff: int) -> None:
    share = compute(recall @ cutoff, ranked, gold, ranked)
    assert share is not None
    assert compute(recall_any @ cutoff, ranked, gold, ranked) == float(share > 0)
    assert compute(recall_all @ cutoff, ranked, gold, ranked) == float(share == 1)
    assert compute(precision @ cutoff, ranked, gold, ranked) == pytest.approx(share * len(gold) / min(cutoff, 12))
