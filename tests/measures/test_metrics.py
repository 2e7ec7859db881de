import json
from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.benchmarks.locomo.benchmark import LOCOMO
from longmemeval.benchmarks.longmemeval.benchmark import LONGMEMEVAL
from longmemeval.benchmarks.longmemeval.benchmark import ORDER as OFFICIAL_TYPES
from longmemeval.benchmarks.longmemeval.judge import PARAMETERS, TEMPLATES_SHA256
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.question_types import ANY_TYPES, OfficialFigures, QuestionTypes
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.measures.metrics import Metrics, Score, compute_metrics
from longmemeval.records import Gold, Judgement, Usage

OFFICIAL = JudgeIdentity(
    id="longmemeval-x",
    model="openai/gpt-4o-2024-08-06",
    templates="LongMemEval",
    templates_sha256=TEMPLATES_SHA256,
    parameters=PARAMETERS,
    official=True,
    endpoint=OWN_ENDPOINT,
)


def gold(question_id: str, question_type: str = "multi-session") -> Gold:
    return Gold(question_id, question_type, "an answer", (), (), question_id.endswith("_abs"))


def judgement(question_id: str, label: bool | None, served_model: str = "", latency_ms: float = 0.0) -> Judgement:
    return Judgement(
        question_id,
        label,
        "",
        OFFICIAL.id,
        "",
        "",
        served_model,
        Usage(calls=1, prompt_tokens=10, cost_usd=0.25),
        attempts=1 if latency_ms else 0,
        latency_ms=latency_ms,
    )


def score(
    golds: Sequence[Gold], labels: Mapping[str, bool | None], types: QuestionTypes = LONGMEMEVAL.types
) -> Metrics:
    judgements = {key: judgement(key, label) for key, label in labels.items()}
    return compute_metrics(golds, judgements, OFFICIAL, types=types)


def official_figures(golds: Sequence[Gold], labels: Mapping[str, bool]) -> OfficialFigures:
    figures = score(golds, labels).official_figures
    assert figures is not None
    return figures


GOLDS = {"empty": [], "partial": [gold("a"), gold("b")], "full": [gold("a"), gold("b"), gold("c"), gold("d")]}
LABELS: dict[str, dict[str, bool | None]] = {
    "empty": {},
    "partial": {"b": True, "c": True},
    "full": {"a": True, "b": False, "c": True, "d": None},
}


@pytest.mark.parametrize(
    ("golds", "labels", "correct", "n", "not_evaluated"),
    [
        ("empty", "empty", 0, 0, 0),
        ("empty", "partial", 0, 0, 0),
        ("empty", "full", 0, 0, 0),
        ("partial", "empty", 0, 2, 2),
        ("partial", "partial", 1, 2, 1),
        ("partial", "full", 1, 2, 0),
        ("full", "empty", 0, 4, 4),
        ("full", "partial", 2, 4, 2),
        ("full", "full", 2, 4, 1),
    ],
)
def test_every_selected_question_counts(golds: str, labels: str, correct: int, n: int, not_evaluated: int) -> None:
    metrics = score(GOLDS[golds], LABELS[labels])
    overall = metrics.overall
    assert (overall.correct, overall.n, overall.not_evaluated) == (correct, n, not_evaluated)
    assert overall.accuracy == (correct / n if n else 0.0)
    assert metrics.by_type == ({"multi-session": overall} if n else {})


def test_without_questions_nothing_is_known() -> None:
    metrics = score([], LABELS["full"])
    assert metrics.overall == Score(0.0, 0, 0, 0, (0.0, 1.0))
    assert (metrics.task_averaged, metrics.abstention, metrics.usage) == (None, None, Usage())


# Two questions of each official type, a third of two of them unanswerable.
SIX = [gold(f"{name}-{i}", name) for name in reversed(OFFICIAL_TYPES) for i in (1, 2)] + [
    gold("k_abs", "knowledge-update"),
    gold("t_abs", "temporal-reasoning"),
]
SIX_LABELS: dict[str, bool | None] = {
    **{one.question_id: one.question_id.endswith("1") for one in SIX},
    "single-session-user-2": True,
    "k_abs": True,
    "t_abs": False,
    "multi-session-2": None,
}
# By hand: user 2/2, preference 1/2, assistant 1/2, multi 1/2, temporal 1/3, update 2/3; overall 8/14; abstention 1/2.


def test_task_average_and_abstention_by_hand() -> None:
    metrics = score(SIX, SIX_LABELS)
    assert metrics.task_averaged == pytest.approx((1 + 0.5 + 0.5 + 0.5 + 1 / 3 + 2 / 3) / 6, abs=1e-15)
    assert metrics.overall.accuracy == 8 / 14
    assert metrics.by_type["temporal-reasoning"].accuracy == 1 / 3
    assert metrics.abstention is not None
    assert (metrics.abstention.correct, metrics.abstention.n) == (1, 2)


def test_types_stand_in_the_official_order_then_by_name() -> None:
    golds = [*SIX, gold("z", "zebra"), gold("x", "adversarial")]
    assert list(score(golds, {}).by_type) == [*OFFICIAL_TYPES, "adversarial", "zebra"]


def test_no_task_average_while_an_official_type_is_missing() -> None:
    assert score([one for one in SIX if one.question_type != "multi-session"], SIX_LABELS).task_averaged is None


def test_other_vocabularies_average_over_the_types_present() -> None:
    golds = [gold("a", "single-hop"), gold("b", "single-hop"), gold("c", "temporal")]
    for types in (LOCOMO.types, ANY_TYPES):
        metrics = score(golds, {"a": True, "b": False, "c": True}, types)
        assert (metrics.task_averaged, metrics.official_figures) == (0.75, None)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sampled_from([*OFFICIAL_TYPES, "other"]), st.booleans()), max_size=30),
    st.data(),
)
def test_the_denominator_never_shrinks(kinds: list[tuple[str, bool]], data: st.DataObject) -> None:
    golds = [gold(f"q{i}{'_abs' if unanswerable else ''}", kind) for i, (kind, unanswerable) in enumerate(kinds)]
    ids = st.sampled_from([one.question_id for one in golds] + ["of-another-run"])
    labels = data.draw(st.dictionaries(ids, st.sampled_from([True, False, None])))
    metrics = score(golds, labels)
    correct = sum(labels.get(one.question_id) is True for one in golds)
    assert metrics.overall.n == len(golds)
    assert metrics.overall.accuracy * len(golds) == pytest.approx(correct)
    assert sum(part.n for part in metrics.by_type.values()) == len(golds)
    assert sum(part.correct for part in metrics.by_type.values()) == correct
    assert sum(part.not_evaluated for part in metrics.by_type.values()) == metrics.overall.not_evaluated


@pytest.mark.parametrize(
    ("served", "official"),
    [
        (["gpt-4o-2024-08-06", ""], True),
        (["gpt-4o-2024-08-06", "gpt-4o-2024-11-20"], False),
        (["llama3.1"], False),
        ([], True),
    ],
)
def test_official_needs_the_servers_word(served: list[str], official: bool) -> None:
    judgements = {f"q{i}": judgement(f"q{i}", True, model) for i, model in enumerate(served)}
    golds = [gold("q0"), gold("q1")]
    assert compute_metrics(golds, judgements, OFFICIAL).judge.official is official
    other = msgspec.structs.replace(OFFICIAL, official=False)
    assert compute_metrics(golds, judgements, other).judge.official is False


def test_a_call_without_a_label_does_not_decide_what_is_official() -> None:
    judgements = {"q": judgement("q", None, "another-model")}
    assert compute_metrics([gold("q")], judgements, OFFICIAL).judge.official is True


def test_the_json_document() -> None:
    judgements = {
        "a": judgement("a", True, latency_ms=100.0),
        "b": judgement("b", False, latency_ms=300.0),
        "c_abs": judgement("c_abs", None, latency_ms=250.0),
        "of-another-run": judgement("of-another-run", True, latency_ms=9000.0),
    }
    metrics = compute_metrics(
        [gold("a"), gold("b"), gold("c_abs")], judgements, OFFICIAL, run="run-1", types=LONGMEMEVAL.types
    )
    document = json.loads(msgspec.json.encode(metrics))
    overall = document["overall"]
    low, high = overall.pop("interval")
    assert 0 < low < 1 / 3 < high < 1
    assert overall == {"accuracy": 1 / 3, "correct": 1, "n": 3, "not_evaluated": 1}
    assert document["run"] == "run-1"
    assert document["judge"].items() >= {"id": "longmemeval-x", "model": OFFICIAL.model, "official": True}.items()
    assert document["task_averaged"] is None
    assert document["by_type"].keys() == {"multi-session"}
    assert document["abstention"].items() >= {"accuracy": 0.0, "n": 1, "not_evaluated": 1}.items()
    assert document["usage"].items() >= {"calls": 3, "prompt_tokens": 30, "cost_usd": 0.75}.items()
    assert document["latency_ms"] == {"p50": 250.0, "p95": pytest.approx(295.0)}
    assert msgspec.json.decode(msgspec.json.encode(metrics), type=Metrics) == metrics


def test_no_latency_without_calls() -> None:
    metrics = score([gold("a")], {"a": True})
    assert (metrics.latency_ms.p50, metrics.latency_ms.p95) == (None, None)


def test_official_figures_by_hand() -> None:
    labels = {key: label for key, label in SIX_LABELS.items() if label is not None}
    figures = official_figures(SIX, labels)
    # multi-session-2 has no label, so the script knows one question less: multi 1/1, overall 8/13.
    assert figures.by_type == {
        "single-session-user": 1.0,
        "single-session-preference": 0.5,
        "single-session-assistant": 0.5,
        "multi-session": 1.0,
        "temporal-reasoning": 0.3333,
        "knowledge-update": 0.6667,
    }
    assert (figures.task_averaged, figures.overall, figures.abstention) == (0.6667, 0.6154, 0.5)


def test_official_figures_agree_with_ours_when_all_is_judged() -> None:
    labels = {one.question_id: SIX_LABELS[one.question_id] or False for one in SIX}
    figures, metrics = official_figures(SIX, labels), score(SIX, labels)
    assert figures.by_type == {name: round(part.accuracy, 4) for name, part in metrics.by_type.items()}
    assert metrics.task_averaged is not None
    assert figures.task_averaged == round(metrics.task_averaged, 4)
    assert figures.overall == round(metrics.overall.accuracy, 4)


def test_official_figures_without_a_type_have_no_task_average() -> None:
    figures = official_figures([gold("a")], {"a": True})
    assert (figures.overall, figures.task_averaged, figures.abstention) == (1.0, None, None)
    assert figures.by_type["knowledge-update"] is None
