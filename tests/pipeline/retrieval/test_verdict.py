"""The first sentence of `retrieval`: the best memory is named where the paired statistics carry it, and only there."""

import pytest
from msgspec import structs

from longmemeval.pipeline.options import RetrievalOptions
from longmemeval.pipeline.retrieval.ranking_run import RetrievalRun
from longmemeval.pipeline.retrieval.retrieve import retrieve
from longmemeval.pipeline.retrieval.verdict import retrieval_sentence
from tests.pipeline.helpers import prepared_colours

MEMORIES = ["last-k", "bm25", "oracle", "combined"]


@pytest.fixture(scope="module")
def ranked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RetrievalRun]:
    """Twelve questions, by memories of which the evidence is the first item of all but `last-k`."""
    dataset, folders = prepared_colours(tmp_path_factory.mktemp("ranked"), 12, "combined")
    options = RetrievalOptions(measures=("recall_any",), cutoffs=(1,))
    report = retrieve(dataset, MEMORIES, options=options, folders=folders)
    assert report.sentence == retrieval_sentence(report.runs)
    assert report.sentence in repr(report)
    return dict(zip(MEMORIES, report.runs, strict=True))


@pytest.mark.slow
def test_one_memory_has_its_figure_and_its_interval(ranked: dict[str, RetrievalRun]) -> None:
    alone = "bm25: recall_any@1 100.0%, 95% CI [75.8, 100.0] on 12 questions."
    assert retrieval_sentence([ranked["bm25"]]) == alone
    # One that reads the gold is no rival.
    assert retrieval_sentence([ranked["oracle"], ranked["bm25"]]) == alone


def test_a_better_memory_is_called_better(ranked: dict[str, RetrievalRun]) -> None:
    assert retrieval_sentence([ranked["last-k"], ranked["bm25"]]) == (
        "bm25 is significantly better than last-k: recall_any@1 100.0% (bm25) vs. 0.0% (last-k) on 12 questions; "
        "95% CI of the difference [+47.1, +100.0] points."
    )


def test_control_equal_and_few_are_no_difference(ranked: dict[str, RetrievalRun]) -> None:
    same = structs.replace(ranked["bm25"], settings=ranked["combined"].settings)
    assert retrieval_sentence([ranked["bm25"], same]).startswith(
        "No significant difference between bm25 and combined: "
    )
    three = [structs.replace(ranked[name], values=ranked[name].values[:3]) for name in ("bm25", "last-k")]
    assert retrieval_sentence(three).startswith("No significant difference between bm25 and last-k: ")
    assert retrieval_sentence([*three, same]).startswith(
        "No memory is significantly better than all others; bm25 has the highest recall_any@1: "
    )


def test_the_best_must_beat_every_other(ranked: dict[str, RetrievalRun]) -> None:
    second, name = ranked["last-k"], ranked["combined"].settings
    third = structs.replace(second, settings=name)
    assert retrieval_sentence([ranked["bm25"], second, third]).startswith(
        "bm25 is significantly better than each of the 2 other memories: "
    )
    few = structs.replace(third, values=third.values[:3])
    assert retrieval_sentence([ranked["bm25"], second, few]).startswith(
        "No memory is significantly better than all others; bm25 has the highest recall_any@1: "
    )


def test_what_is_not_known_is_not_called_nothing(ranked: dict[str, RetrievalRun]) -> None:
    run = ranked["bm25"]
    (result,) = run.results
    unknown = {name: structs.replace(mean, mean=None, n=0, interval=None) for name, mean in result.measures.items()}
    blind = structs.replace(run, values=(), results=(structs.replace(result, measures=unknown),))
    assert retrieval_sentence([blind]) == "Recall of bm25 is unknown: no message or session ids were returned."
    assert retrieval_sentence([blind, ranked["last-k"]]).startswith("last-k: recall_any@1 0.0%, ")


def test_of_a_measure_of_errors_the_lower_is_better(ranked: dict[str, RetrievalRun]) -> None:
    def renamed(run: RetrievalRun) -> RetrievalRun:
        (result,) = run.results
        values = tuple(structs.replace(one, values={"stale_first": one.values["recall_any@1"]}) for one in run.values)
        measures = {"stale_first": result.measures["recall_any@1"]}
        return structs.replace(run, values=values, results=(structs.replace(result, measures=measures),))

    sentence = retrieval_sentence([renamed(ranked[name]) for name in ("bm25", "last-k")])
    assert sentence.startswith("last-k is significantly better than bm25: stale_first 0.0% (last-k) vs. 100.0% (bm25)")
