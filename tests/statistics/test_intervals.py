"""The interval of a mean against plain recomputation, and how often it holds the truth."""

import numpy as np
import pytest

from longmemeval.benchmarks.locomo.benchmark import LOCOMO
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.measures.metrics import compute_metrics
from longmemeval.records import Gold, Judgement
from longmemeval.statistics.intervals import label_interval, score_interval, wilson_interval
from longmemeval.statistics.resampling import bootstrap_mean

JUDGE = JudgeIdentity("labels-0", "test/labels", "by hand", "0" * 64, {}, official=False)


def plain_bootstrap(values: list[float], clusters: list[str]) -> tuple[float, float]:
    """Draw clusters with replacement, put their questions together, average: as it would be written down."""
    names = sorted(set(clusters))
    members = [[value for value, cluster in zip(values, clusters, strict=True) if cluster == name] for name in names]
    generator = np.random.default_rng(99)
    means = []
    for _ in range(4000):
        drawn = [value for place in generator.integers(len(names), size=len(names)) for value in members[place]]
        means.append(sum(drawn) / len(drawn))
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def conversations(seed: int) -> tuple[list[float], list[str]]:
    """Labels of ten conversations that fare differently; 30 to 60 questions each."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(30, 60, size=10)
    chances = np.repeat(generator.uniform(0.1, 0.7, size=10), sizes)
    labels = (generator.random(len(chances)) < chances).astype(float)
    return labels.tolist(), [f"c{number}" for number, size in enumerate(sizes) for _ in range(size)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_labels_of_shared_haystacks_by_a_plain_recomputation(seed: int) -> None:
    labels, clusters = conversations(seed)
    interval, method = label_interval(labels, clusters)
    assert method == "bootstrap over haystacks"
    assert interval == pytest.approx(plain_bootstrap(labels, clusters), abs=0.008)
    wilson = wilson_interval(round(sum(labels)), len(labels))
    assert interval[1] - interval[0] > 1.5 * (wilson[1] - wilson[0])
    # Scores that happen to be 0 and 1 have the same.
    assert score_interval(labels, clusters) == interval


def test_labels_of_a_locomo_run() -> None:
    """`bm25`, answered by `offline/extractive`, graded by `offline/lexical`: right answers of each conversation."""
    counts = [(16, 199), (12, 105), (23, 193), (35, 260), (37, 242), (27, 158), (38, 190), (30, 239), (30, 196)]
    counts.append((35, 204))
    labels = [float(number < right) for right, n in counts for number in range(n)]
    clusters = [f"conv-{place}" for place, (_, n) in enumerate(counts) for _ in range(n)]
    assert [round(100 * bound, 1) for bound in wilson_interval(283, 1986)] == [12.8, 15.9]
    assert [round(100 * bound, 1) for bound in label_interval(labels, clusters)[0]] == [12.3, 16.2]


@pytest.mark.parametrize("clusters", [[f"h{number}" for number in range(40)], ["only"] * 40])
def test_labels_of_independent_questions_keep_wilsons(clusters: list[str]) -> None:
    assert label_interval([1.0] * 13 + [0.0] * 27, clusters) == (wilson_interval(13, 40), "wilson")


def test_labels_never_claim_more_than_wilsons() -> None:
    shared = [f"h{number % 10}" for number in range(300)]
    # Nothing is right, or everything: a bootstrap would have no width.
    assert label_interval([0.0] * 300, shared)[0] == wilson_interval(0, 300)
    assert label_interval([1.0] * 300, shared)[0] == wilson_interval(300, 300)
    # One of 300: the bootstrap ends at 1 %.
    one = [1.0] + [0.0] * 299
    assert bootstrap_mean(one, shared)[1] == pytest.approx(0.01)
    low, high = label_interval(one, shared)[0]
    assert low == 0.0
    assert high == wilson_interval(1, 300)[1] > 0.018
    # Haystacks that are more alike than chance would have it.
    alike = [float(number // 10 % 2) for number in range(300)]
    assert label_interval(alike, shared)[0] == pytest.approx(wilson_interval(150, 300), abs=1e-12)


def test_without_or_with_one_question() -> None:
    assert label_interval([], []) == ((0.0, 1.0), "wilson")
    assert label_interval([1.0], ["h"]) == (wilson_interval(1, 1), "wilson")
    assert score_interval([], []) == (0.0, 1.0)
    assert score_interval([0.4], ["h"]) == wilson_interval(0, 1)


def covered(haystacks: int, each: int, spread: float, trials: int = 400) -> tuple[float, float]:
    """How often the interval, and Wilson's alone, hold the true 30%, where haystacks lie `spread` around it."""
    generator = np.random.default_rng(haystacks)
    clusters = [f"h{number}" for number in range(haystacks) for _ in range(each)]
    ours = wilsons = 0
    for _ in range(trials):
        chances = np.repeat(0.3 + spread * generator.choice([-1, 1], size=haystacks), each)
        labels = (generator.random(len(chances)) < chances).astype(float).tolist()
        low, high = label_interval(labels, clusters, resamples=1000)[0]
        ours += low <= 0.3 <= high
        low, high = wilson_interval(round(sum(labels)), len(labels))
        wilsons += low <= 0.3 <= high
    return ours / trials, wilsons / trials


@pytest.mark.slow
def test_intervals_of_labels_cover_the_truth() -> None:
    many, wilson_of_many = covered(60, 20, 0.12)
    assert many == pytest.approx(0.95, abs=0.04)
    assert wilson_of_many < many - 0.08
    # Of ten haystacks a bootstrap is known to be somewhat short; of Wilson's nothing else can be said.
    ten, wilson_of_ten = covered(10, 150, 0.1)
    assert ten > 0.86
    assert wilson_of_ten < 0.75
    # Where haystacks do not differ there is nothing to lose.
    assert covered(10, 150, 0.0)[0] > 0.93


def test_every_row_draws_the_haystacks_of_its_own_questions() -> None:
    """Overall, types, abilities, facets and abstention: where a group shares none, its interval is Wilson's."""
    labels, clusters = conversations(5)
    kinds = ["single-hop" if number % 3 else "adversarial" for number in range(len(labels))]
    golds = [
        Gold(f"q{number:04}", kind, "", (), (), kind == "adversarial", facets={"evidence": number % 2})
        for number, kind in enumerate(kinds)
    ]
    lone = [Gold(f"x{number}", "temporal", "", (), (), False, facets={"evidence": 1}) for number in range(9)]
    haystacks = {one.question_id: cluster for one, cluster in zip(golds, clusters, strict=True)}
    haystacks |= {one.question_id: f"own-{one.question_id}" for one in lone}
    right = {one.question_id: bool(label) for one, label in zip(golds, labels, strict=True)}
    right |= {one.question_id: number < 4 for number, one in enumerate(lone)}
    judgements = {name: Judgement(name, label, "", JUDGE.id, "", "") for name, label in right.items()}
    hypotheses = dict.fromkeys(right, "I don't know.")
    metrics = compute_metrics(
        [*golds, *lone], judgements, JUDGE, haystacks=haystacks, hypotheses=hypotheses, types=LOCOMO.types
    )

    def expected(group: list[Gold]) -> tuple[float, float]:
        ids = sorted(one.question_id for one in group)
        return label_interval([float(right[one]) for one in ids], [haystacks[one] for one in ids])[0]

    hops = [one for one in golds if one.question_type == "single-hop"]
    unanswerable = [one for one in golds if one.abstention]
    assert metrics.overall.interval == expected([*golds, *lone])
    assert metrics.by_type["single-hop"].interval == expected(hops)
    assert metrics.by_type["single-hop"].interval != wilson_interval(metrics.by_type["single-hop"].correct, len(hops))
    assert metrics.by_type["temporal"].interval == wilson_interval(4, 9)
    assert metrics.by_ability["fact-recall"].interval == expected(hops)
    assert metrics.by_ability["temporal"].interval == wilson_interval(4, 9)
    assert metrics.by_facet["single-hop, evidence 1"].interval == expected(
        [one for one in hops if one.facets["evidence"]]
    )
    assert metrics.abstention is not None
    assert metrics.abstention.interval == expected(unanswerable)
    assert metrics.answerable is not None
    assert metrics.answerable.interval == expected([*hops, *lone])
    assert metrics.haystacks == 19
    # All abstain: precision is the share of unanswerable questions.
    assert metrics.abstaining is not None
    ids = sorted(right)
    flags = {one.question_id: float(one.abstention) for one in (*golds, *lone)}
    precision = label_interval([flags[one] for one in ids], [haystacks[one] for one in ids])[0]
    assert metrics.abstaining.precision_interval == precision
    assert compute_metrics(lone, judgements, JUDGE, haystacks=haystacks).haystacks is None
