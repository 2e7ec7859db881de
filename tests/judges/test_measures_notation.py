import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval import measures
from longmemeval.errors import HarnessError
from longmemeval.measures import MEASURES, Measure, mrr, ndcg_official, recall, recall_any

AT_CUTOFF = [kind.name for kind in MEASURES.values() if kind.has_cutoff]


def test_the_measures_are_the_documented_ones() -> None:
    assert [kind.notation for kind in MEASURES.values()] == [
        "recall_any@k",
        "recall_all@k",
        "recall@k",
        "precision@k",
        "mrr",
        "ndcg@k",
        "ndcg_official@k",
        "current_recall@k",
        "current_first@k",
        "stale_shown@k",
        "stale_first",
    ]


def test_python_command_line_and_result_key_are_one_notation() -> None:
    assert str(recall_any @ 5) == "recall_any@5"
    assert Measure.parse("recall_any@5") == recall_any @ 5 == Measure("recall_any", 5)
    assert str(mrr) == "mrr"
    assert Measure.parse("mrr") == mrr == Measure("mrr")
    assert Measure.parse(str(ndcg_official @ 50)) == ndcg_official @ 50


@given(name=st.sampled_from(AT_CUTOFF), cutoff=st.integers(1, 10**9 - 1))
def test_round_trip(name: str, cutoff: int) -> None:
    measure = Measure(name, cutoff)
    assert Measure.parse(str(measure)) == measure
    assert getattr(measures, name) @ cutoff == measure


def test_measures_are_values() -> None:
    assert len({recall @ 5, Measure.parse("recall@5"), recall @ 10, recall_any @ 5}) == 3


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("recal_any@5", "recall_any@k"),
        ("NDCG@10", "ndcg@k"),
        ("percision@3", "precision@k"),
        ("recall-all@5", "recall_all@k"),
    ],
)
def test_unknown_name_is_answered_with_the_nearest(text: str, meant: str) -> None:
    with pytest.raises(HarnessError, match=f"Unknown measure '{text}'.*Did you mean '{meant}'"):
        Measure.parse(text)


@pytest.mark.parametrize("text", ["", "@", "@5", "hit", "RECALL"])
def test_what_resembles_nothing_is_refused(text: str) -> None:
    with pytest.raises(HarnessError, match="Unknown measure"):
        Measure.parse(text)


@pytest.mark.parametrize(
    "cutoff",
    [
        "",
        "@",
        "@0",
        "@-1",
        "@+5",
        "@05",
        "@5.0",
        "@k",
        "@ 5",
        "@5 ",
        "@5@5",
        "@1_0",
        "@\u0665",
        "@1000000000",
        "@" + "9" * 5000,
    ],
)
def test_bad_cutoff_is_refused_and_the_right_form_shown(cutoff: str) -> None:
    with pytest.raises(HarnessError, match=r"'recall' needs a cutoff.*Write recall@5"):
        Measure.parse(f"recall{cutoff}")


@pytest.mark.parametrize("cutoff", [None, 0, -3, 10**9])
def test_bad_cutoff_is_refused_in_python_too(cutoff: int | None) -> None:
    with pytest.raises(HarnessError, match="needs a cutoff"):
        Measure("ndcg", cutoff)


@pytest.mark.parametrize("text", ["mrr@10", "mrr@", "mrr@x"])
def test_a_measure_over_the_whole_ranking_takes_no_cutoff(text: str) -> None:
    with pytest.raises(HarnessError, match=r"'mrr' takes no cutoff.*Write mrr"):
        Measure.parse(text)


def test_every_measure_says_what_it_is_and_where_it_comes_from() -> None:
    for kind in MEASURES.values():
        assert kind.meaning.endswith(".")
        assert kind.formula
        assert kind.source
