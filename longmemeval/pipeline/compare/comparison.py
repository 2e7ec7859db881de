"""The results of `compare`: figures of every configuration, every pair, every question. Nothing is rounded."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from longmemeval.core.tables.showing import Showing, renderer
from longmemeval.core.text.figures import listed, points
from longmemeval.judges.audit import AuditedMean, Ceiling
from longmemeval.measures.losses import cause_of
from longmemeval.memory.configuration import MEMORIES
from longmemeval.pipeline.compare.naming import Grid
from longmemeval.pipeline.compare.repeats import Flips
from longmemeval.pipeline.compare.sentences import SCORE_WARNINGS, Kind, Sentence, budget_words
from longmemeval.records import Provenance
from longmemeval.results.graded.graded_run import Evaluation, GradedRun
from longmemeval.results.graded.losses import Losses
from longmemeval.results.scores.warnings import ScoreWarning
from longmemeval.statistics.intervals import Spread
from longmemeval.statistics.paired import Paired, compare_credits, holm
from longmemeval.statistics.power import ALPHA, detectable_difference

INSIDE_THE_NOISE = "inside the noise"
"""The verdict, for machines, on two runs whose difference is not significant: neither is better."""
NOT_SIGNIFICANT = "not significant"
"""The verdict, for people, on two runs whose difference is not significant."""

Family = Literal["baseline", "pairs"]
"""The tests that one table shows, and that Holm's adjustment is over: each run with the baseline, or all pairs."""


class ComparedRun(Struct, frozen=True):
    """The figures of one run, or of all repeats of one configuration."""

    summary: GradedRun
    """The summary of the run; of repeats the pooled one, under the id of the first."""
    reading: str
    """Reading method and history format; empty for answers of another system."""
    settings_sha256: str
    """Equal for repeats of one configuration."""
    evidence_recall: float | None
    """Mean share of a question's evidence that reached the prompt; None if not known."""
    lost: dict[str, int]
    """Numbers of wrongly answered questions lost at each stage (`measures/losses.py`), in the stages' order."""
    marks: str = ""
    """`▲` or `▼` if it is significantly better or worse than the baseline, else empty."""
    provenance: Provenance = "message"
    """The level of `evidence_recall`: `session` if the memory does not say which messages it found."""
    budget: int | None = None
    """The most tokens that the memory may recall; None: no limit."""
    asked_budget: int | None = None
    """`budget` if somebody asked for it; None: there is none, or it is the memory's own default."""
    deviations: tuple[str, ...] = ()
    """For a product: its profile, and where its setup departs from what its maker recommends or measures."""
    cheaper_from: int | Literal["never"] | None = None
    """Number of questions on one history from which the memory costs less than the full history (`break_even`)."""
    run_ids: tuple[str, ...] = ()
    """The ids of the runs: several for repeats."""
    warned: bool = False
    """True if its score has a warning that not all compared memories share."""
    changes: tuple[int, int, int] | None = None
    """Numbers of questions with more, less and the same credit as in the baseline; None for the baseline itself."""

    @property
    def run_id(self) -> str:
        """The id of the run, or of the first repeat."""
        return self.summary.run_id


class Discordant(Struct, frozen=True):
    """Numbers of questions that only one of two runs gets right, and the exact McNemar test on them."""

    a_only: int
    b_only: int
    p: float


class PairResult(Struct, frozen=True):
    """Run `a` minus run `b`; differences are fractions between -1 and 1. Repeats go by the id of the first."""

    a: str
    b: str
    difference: float
    interval: tuple[float, float]
    """95% CI of `difference`: it excludes 0 exactly where `p` is below 0.05."""
    mcnemar: Discordant | None
    """The discordant questions; None if the judge gives scores, or repeats are pooled."""
    p: float
    test: str
    """The test that gave `p`, and whose inversion is `interval`."""
    p_holm: float
    """`p` adjusted for the number of pairs in the family (Holm 1979)."""
    significant: bool
    """True if `p_holm` is below 0.05."""
    verdict: str
    """`INSIDE_THE_NOISE`, or which run is better by how much."""

    detectable: float | None = None
    """The smallest difference that the family's test of this pair finds with 80% power, given how often the two
    disagree. None if there is none, or it is not known.
    """
    units: int = 0
    """Number of units the test is over: questions, or haystacks that questions share."""
    approximate: bool = False
    """True if `p` is approximate, because the two were repeated unequally often."""

    @property
    def is_better(self) -> bool:
        """True if `a` is significantly better than `b`."""
        return self.significant and self.difference > 0

    @property
    def turned(self) -> "PairResult":
        """This result with the two runs swapped."""
        low, high = self.interval
        mcnemar = self.mcnemar
        return structs.replace(
            self,
            a=self.b,
            b=self.a,
            difference=0.0 - self.difference,
            interval=(0.0 - high, 0.0 - low),
            mcnemar=mcnemar and Discordant(mcnemar.b_only, mcnemar.a_only, mcnemar.p),
        )

    def verdict_on(self, a: str, b: str) -> str:
        """Return the verdict for people, with the runs under these names."""
        if not self.significant:
            return NOT_SIGNIFICANT
        return f"{a if self.difference > 0 else b} is better by {points(abs(self.difference))}"


class QuestionRow(Struct, frozen=True):
    """One question across the runs, in their order."""

    question_id: str
    question_type: str
    credits: tuple[float | None, ...]
    """The credit of each run, between 0 and 1; None: not evaluated, counts as 0."""
    stages: tuple[str | None, ...]
    """The stage at which each run lost the question; None if it did not answer wrongly, or the stage is unknown."""


class RepeatGroup(Struct, frozen=True):
    """Runs that repeat one configuration, with their spread, which excludes the sampling error of the questions."""

    name: str
    run_ids: tuple[str, ...]
    spread: Spread
    flips: Flips


Finding = Literal["score", "better", "worse", "as well as", "alike", "not shown"]
"""What the verdict says of the highest-scoring memory: a score alone, significantly better or worse than the baseline,
equivalent to it, identical with it, or not significantly different."""


class Verdict(Struct, frozen=True):
    """The conclusion of a comparison."""

    code: str
    """The code of its sentence."""
    finding: Finding
    run: str
    """The highest-scoring run that is neither the baseline nor a control; if all others are controls, the highest of
    those."""
    baseline: str | None
    """The run that the others are compared with; None for a single run."""
    winner: str | None
    """The run that is significantly better than every other memory; only said of all pairs, else None."""
    margin: float
    """A fraction between 0 and 1: "equivalent" needs the interval of the difference to lie inside it."""
    text: str
    """The conclusion in one sentence."""
    more: str = ""
    """Sentences to follow `text`: missing labels come before everything else that limits it."""

    @property
    def whole(self) -> str:
        """The sentence followed by `more`."""
        return f"{self.text} {self.more}".rstrip()


class LostGroup(Struct, frozen=True):
    """The questions that a run lost for one cause."""

    cause: str
    count: int
    won_elsewhere: int
    """Number of these questions that another run answers correctly without the gold evidence."""
    example: str
    """The id of one such question, if possible one of those `won_elsewhere`."""
    to_try: str
    """Options of `run` or another verb that may help; empty if none would."""


class AuditedRow(Struct, frozen=True):
    """One row with and without the questions of one kind of dispute."""

    kind: str
    left_out: int
    run_id: str
    score: AuditedMean
    versus: PairResult | None
    """The row minus the baseline without these questions, in a family of its own; None for the baseline."""


class ComparedAudit(Struct, frozen=True):
    """A comparison with and without the questions that one audit disputes."""

    audit: str
    about: str
    """A sentence on who made it; empty if not known."""
    sha256: str
    kinds: dict[str, int]
    """Numbers of the compared questions by kind of dispute."""
    disputed: tuple[str, ...]
    """Ids of the compared questions whose gold answer is disputed."""
    ceiling: Ceiling
    """The score that a perfect memory gets by these labels, if the audit is right."""
    above: dict[str, tuple[str, ...]]
    """Ids of rows above the ceiling, by question type; overall under the empty name."""
    rows: tuple[AuditedRow, ...]


class Digest(Struct, frozen=True):
    """The causes for which one run lost its questions."""

    run: str
    lost: int
    """Number of questions without full credit."""
    of: int
    """Number of all questions."""
    groups: tuple[LostGroup, ...]
    """The lost questions by cause, the most frequent first."""


class Comparison(Struct, Showing, frozen=True, dict=True):
    """Comparison of runs on the same questions of the same data, graded by the same judge."""

    dataset: str
    runs: tuple[ComparedRun, ...]
    """Every run, in the order of display."""
    rows: tuple[ComparedRun, ...]
    """Every configuration, repeats pooled, the baseline first: what tables and tests are about."""
    against: tuple[PairResult, ...]
    """Every other row minus the baseline: a family of tests of its own."""
    pairs: tuple[PairResult, ...]
    """Every row paired with every later one: the family of all pairs."""
    family: Family
    """The family that verdict and marks belong to."""
    questions: tuple[QuestionRow, ...]
    repeats: tuple[RepeatGroup, ...]
    names: dict[str, str]
    """The name of every run, by its id, wherever it is shown: the memory, and what else tells it from the others."""
    detectable: float | None
    """The difference that every test of the family finds with 80% power, i.e. the largest of the pairs' figures. For a
    single run, a planning figure that rests on an assumption (`statistics.power`). None if unknown.
    """
    sentences: tuple[Sentence, ...]
    """All sentences: the verdict first, then what casts doubt on the table, then notes."""
    verdict: Verdict
    digest: Digest
    """The lost questions of the run that the verdict is about."""
    grids: tuple[Grid, ...] = ()
    """Rows that vary in two settings, one for each combination of their values."""
    differing: dict[str, str] = {}
    """Settings that differ and that no name tells, the memories' own apart: plain words -> a sentence on each."""
    common: bool = False
    """True if questions that not all runs answered were left out."""
    not_surviving: tuple[tuple[str, str], ...] = ()
    """Ids of the pairs whose difference is no longer significant once corrected for the judge's errors."""
    audits: tuple[ComparedAudit, ...] = ()
    """The audits that were asked for."""
    evaluations: tuple[Evaluation, ...] = ()
    """The graded runs, in the order of `runs`."""

    def __repr__(self) -> str:
        names = ", ".join(run.run_id for run in self.runs)
        return f"Comparison({self.dataset!r}, {len(self.questions)} questions, {names}: {self.verdict.text})"

    def texts(self, *kinds: Kind) -> list[str]:
        """Return the sentences of these kinds, in their order."""
        return [sentence.text(self.names) for sentence in self.sentences if sentence.kind in kinds]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on why the runs are less comparable than they look; each run has the warnings on its score."""
        return self._comparability("caution", "note")

    @property
    def cautions(self) -> tuple[str, ...]:
        """The `warnings` that cast doubt on the table."""
        return self._comparability("caution")

    def _comparability(self, *kinds: Kind) -> tuple[str, ...]:
        sentences = [sentence for sentence in self.sentences if sentence.kind in kinds]
        return tuple(sentence.text(self.names) for sentence in sentences if sentence.code not in SCORE_WARNINGS)

    @property
    def metric(self) -> str:
        """The name of the score, which is the same for all runs."""
        return self.rows[0].summary.metrics.judge.metric

    @property
    def budget(self) -> str:
        """The token budgets that were asked for, and the rows that have none; empty if nobody asked for one."""
        words = budget_words([row.asked_budget for row in self.rows])
        shown = [row for row in self.rows if row.summary.control is None or row is self.rows[0]]
        under, without = (
            [self.names[row.run_id] for row in shown if bool(row.asked_budget) is has] for has in (True, False)
        )
        if not words or not without:
            return words
        fewer, only = (without, "not") if len(without) <= len(under) else (under, "only")
        return f"{words} ({only} {listed(fewer, 2, '; ')})"

    @property
    def ranked(self) -> list[ComparedRun]:
        """The rows in the order shown: the highest score first, controls other than the baseline last.

        Of equal scores, the baseline is first, then names decide: the order in which runs were named does not matter.
        """
        baseline = self.rows[0]

        def order(row: ComparedRun) -> tuple[bool, float, bool, str]:
            control = row.summary.control is not None and row is not baseline
            accuracy = row.summary.metrics.overall.accuracy
            return control, -accuracy, row is not baseline, self.names[row.run_id]

        return sorted(self.rows, key=order)

    @property
    def controls_begin(self) -> list[int]:
        """The index in `ranked` at which the controls begin; empty if there are none, or nothing else."""
        begin = sum(row.summary.control is None or row is self.rows[0] for row in self.rows)
        return [begin] if 0 < begin < len(self.rows) else []

    @cached_property
    def from_baseline(self) -> Mapping[str, PairResult]:
        """The result of each other row minus the baseline, by the other row's id, in the family of the verdict."""
        if self.family == "baseline":
            return {pair.a: pair for pair in self.against}
        first = self.rows[0].run_id
        return {pair.b: pair.turned for pair in self.pairs if pair.a == first}

    @cached_property
    def both_ways(self) -> Mapping[tuple[str, str], PairResult]:
        """Every pair in both orders: ids of two rows -> the first minus the second."""
        return {(result.a, result.b): result for pair in self.pairs for result in (pair, pair.turned)}

    @property
    def lost(self) -> tuple[LostGroup, ...]:
        """Wrong answers of the run in the verdict by cause, the most frequent first."""
        return self.digest.groups

    def report(self, path: str | Path = "report.html", *, force: bool = False) -> Path:
        """Write the report on these runs as a page, or as tables in Markdown (`.md`) or LaTeX (`.tex`).

        Args:
            path: the file to write; an earlier report is replaced.
            force: replace the file even if it is not a report.

        Raises:
            HarnessError: the file exists and is not a report, or the extra `report` is not installed.
        """
        renderer().write_comparison(self, Path(path), force)
        return Path(path)


# Compare how many tokens the memories show the answering model: a warning if that differs, and curves over budgets.

UNEQUAL = 1.5
"""The largest ratio of two memories' mean prompt tokens that gives no warning."""


class BudgetCurve(Struct, frozen=True):
    """One memory under several token budgets, with all other settings the same."""

    name: str
    runs: tuple[int, ...]
    """Positions of the runs in the comparison, the smallest budget first."""
    budgets: tuple[int, ...]


def with_token_warnings(graded: Sequence[Evaluation], names: Mapping[str, str]) -> list[Evaluation]:
    """Return the runs, adding the warning `unequal-tokens` to those whose prompts differ too much in length.

    Controls are left out. If some budget is shared by several runs, runs are checked only against those with the same
    budget: a curve over budgets is meant to differ.
    """
    budgets = {run.manifest.run_id: budget_of(run) for run in graded}
    within = any(list(budgets.values()).count(budget) > 1 for budget in budgets.values() if budget)
    groups: dict[int | None, list[Evaluation]] = {}
    for run in graded:
        if run.summary.control is None and run.summary.mean_prompt_tokens:
            groups.setdefault(budgets[run.manifest.run_id] if within else None, []).append(run)
    warning = {
        run.manifest.run_id: text for group in groups.values() if (text := _unequal(group, names)) for run in group
    }
    return [_warned(run, warning[run.manifest.run_id]) if run.manifest.run_id in warning else run for run in graded]


def _unequal(group: Sequence[Evaluation], names: Mapping[str, str]) -> str:
    tokens = {run.manifest.run_id: run.summary.mean_prompt_tokens or 0 for run in group}
    least, most = min(tokens, key=tokens.__getitem__), max(tokens, key=tokens.__getitem__)
    times = tokens[most] / tokens[least]
    if times <= UNEQUAL:
        return ""
    return (
        f"Mean prompt length differs {times:.1f}-fold ({tokens[least]:,.0f} tokens in {names[least]}, "
        f"{tokens[most]:,.0f} in {names[most]}), which alone can change scores. Use `run --budget TOKENS`, or "
        "`budget` in a sweep's file."
    )


def _warned(run: Evaluation, text: str) -> Evaluation:
    warnings = (*run.summary.warnings, ScoreWarning("unequal-tokens", text))
    return structs.replace(run, summary=structs.replace(run.summary, warnings=warnings))


def budget_of(run: Evaluation) -> int | None:
    """Return the budget of a run's memory; None if it has none or is unknown."""
    memory = run.manifest.settings.memory
    budget = memory.parameters.get("budget") if memory else None
    return budget if isinstance(budget, int) else None


def asked_budget_of(run: Evaluation) -> int | None:
    """Return the budget of a run's memory if somebody asked for it: a name has what is not the preset's default."""
    memory, budget = run.manifest.settings.memory, budget_of(run)
    if memory is None or memory.preset not in MEMORIES.built_in:
        return budget
    return budget if f"budget={budget}" in run.summary.memory.split() else None


def budget_curves(runs: Sequence[ComparedRun]) -> list[BudgetCurve]:
    """Return a curve for each memory, model and reading that was run under more than one budget."""
    alike: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for place, run in enumerate(runs):
        if run.budget:
            name = run.summary.memory.replace(f" budget={run.budget}", "")
            alike.setdefault((name, run.summary.model, run.reading), []).append((run.budget, place))
    curves = []
    for (name, *_), alike_at in alike.items():
        budgets = tuple(dict.fromkeys(budget for budget, _ in sorted(alike_at)))
        if len(budgets) > 1:
            curves.append(BudgetCurve(name, tuple(place for _, place in sorted(alike_at)), budgets))
    return curves


# Group a run's lost questions by cause, each group with an example and something to try.

_LIMITS = ("budget", "top_k", "limit", "entries", "last_messages")
"""Memory parameters that let more of the history through; the first that is set is suggested."""
SUGGESTED_FACTOR = 2
"""The factor by which a suggested limit is larger."""


def digest_of(run: Evaluation, lost: Losses, others: Sequence[Evaluation]) -> Digest:
    """Return the causes for which a run lost questions, the most frequent first.

    Args:
        lost: the stage at which each question was lost.
        others: the other runs; a question that one of them answers correctly without the gold evidence is preferred as
            an example.
    """
    rivals = [other.credits for other in others if not other.summary.reads_gold]
    groups = []
    for stage, count in sorted(lost.counts.items(), key=lambda counted: -counted[1]):
        ids = [question_id for question_id, lost_at in lost.stages.items() if lost_at == stage]
        won = [question_id for question_id in ids if any((credits[question_id] or 0) == 1 for credits in rivals)]
        groups.append(
            LostGroup(cause_of(stage), count, len(won), (won or ids)[0], _to_try(stage, run)),
        )
    return Digest(run.manifest.run_id, sum(lost.counts.values()), len(lost.stages), tuple(groups))


def _to_try(stage: str, run: Evaluation) -> str:
    """Return the option to try next; empty if none would help."""
    settings = run.manifest.settings
    memory = settings.memory
    parameters = memory.parameters if memory else {}
    limit = next((name for name in _LIMITS if isinstance(parameters.get(name), int) and parameters[name] > 0), None)
    larger = f"--set {limit}={parameters[limit] * SUGGESTED_FACTOR}" if limit else ""
    if stage == "not retrieved":
        return larger or "another --memory"
    if stage == "retrieved but cut":
        return (
            f"--set budget={parameters['budget'] * SUGGESTED_FACTOR}"
            if parameters.get("budget")
            else "--context-window"
        )
    if stage == "lost at reflection":
        return f"--set reflect_tokens={parameters['reflect_tokens'] * SUGGESTED_FACTOR}"
    if stage == "not stored":
        return "prepare again; `longmemeval verify` names what failed"
    if stage == "not answered":
        return f"--resume {run.manifest.run_id}"
    if stage == "disputed":
        return "evaluate with --votes 3"
    if stage == "in the prompt":
        method = settings.reading.method if settings.reading else ""
        return "another --model" if method in ("con", "") else "--reading con"
    return ""


# Find the runs that no other run dominates: the Pareto front of accuracy against tokens, time and money.


class ParetoPoint(Struct, frozen=True):
    """One run on the four axes; None: unknown."""

    name: str
    accuracy: float
    """The accuracy between 0 and 1, or the mean score if the judge gives scores.

    Higher is better; on the other axes lower is.
    """
    prompt_tokens: float | None = None
    """Mean number of prompt tokens per question."""
    latency_ms: float | None = None
    """Median time per question, recall and model together, in whole milliseconds: fractions are measurement noise."""
    cost_usd: float | None = None
    """The cost of preparing, analysing the questions, answering and judging."""


def pareto_front(points: Sequence[ParetoPoint]) -> list[str]:
    """Return the names of the points that no other point dominates, in the order given.

    A point dominates another if it is nowhere worse and somewhere better. An axis on which either is unknown is left
    out of their comparison. Of equal points, either all are on the front or none.
    """
    return [point.name for point in points if not any(_dominates(other, point) for other in points)]


def pareto_points(summaries: Iterable[GradedRun]) -> list[ParetoPoint]:
    """Return the runs as points, leaving out those that read the gold evidence: a ceiling is not a memory system."""
    return [_point(summary) for summary in summaries if not summary.reads_gold]


def _point(summary: GradedRun) -> ParetoPoint:
    median = summary.latency.total.p50
    return ParetoPoint(
        name=summary.run_id,
        accuracy=summary.metrics.overall.accuracy,
        prompt_tokens=summary.mean_prompt_tokens,
        latency_ms=None if median is None else round(median),
        cost_usd=summary.costs.total.usd,
    )


def _dominates(a: ParetoPoint, b: ParetoPoint) -> bool:
    costs = ((a.prompt_tokens, b.prompt_tokens), (a.latency_ms, b.latency_ms), (a.cost_usd, b.cost_usd))
    gains = [a.accuracy - b.accuracy] + [
        theirs - own for own, theirs in costs if own is not None and theirs is not None
    ]
    return min(gains) >= 0 and max(gains) > 0


# The paired tests of a comparison: each row with the baseline, and all pairs, each adjusted within its own family.

Credits = Mapping[str, float | None]


class Families(Struct, frozen=True):
    """Both families of tests."""

    against: tuple[PairResult, ...]
    """Every other row minus the baseline."""
    pairs: tuple[PairResult, ...]
    """Every row paired with every later one."""

    def of_baseline(self, family: Family) -> dict[str, PairResult]:
        """Return each other row minus the baseline, by the other's id, adjusted within the family."""
        if family == "baseline" or not self.against:
            return {pair.a: pair for pair in self.against}
        baseline = self.against[0].b
        return {pair.b: pair.turned for pair in self.pairs if pair.a == baseline}


def families_of(
    ids: Sequence[str], credits: Sequence[Sequence[Credits]], haystacks: Mapping[str, str], *, labels: bool
) -> Families:
    """Compare every row with every later one.

    Args:
        ids: the id of each row, the baseline first.
        credits: the credits by question of each row's repeats.
        haystacks: haystack by question id.
        labels: True if credits are right or wrong.
    """
    places = list(combinations(range(len(ids)), 2))
    paired = {place: compare_credits(credits[place[0]], credits[place[1]], haystacks) for place in places}
    to_first = [(_pair(ids[0], ids[b], paired[a, b], labels=labels).turned, paired[a, b]) for a, b in places if not a]
    pairs = [(_pair(ids[a], ids[b], paired[a, b], labels=labels), paired[a, b]) for a, b in places]
    return Families(_adjusted(to_first, labels=labels), _adjusted(pairs, labels=labels))


def _pair(a: str, b: str, paired: Paired, *, labels: bool) -> PairResult:
    discordant = None
    if labels and paired.mcnemar_p is not None:
        discordant = Discordant(paired.a_only, paired.b_only, paired.mcnemar_p)
    return PairResult(
        a=a,
        b=b,
        difference=paired.difference,
        interval=paired.interval,
        mcnemar=discordant,
        p=paired.p,
        test=paired.test,
        p_holm=paired.p,
        significant=False,
        verdict=INSIDE_THE_NOISE,
        units=paired.units,
        approximate=paired.approximate,
    )


def _adjusted(pairs: Sequence[tuple[PairResult, Paired]], *, labels: bool) -> tuple[PairResult, ...]:
    """Return the pairs of one family with p adjusted for their number, and what the family can detect."""
    found = []
    for (pair, paired), p_holm in zip(pairs, holm([pair.p for pair, _ in pairs]), strict=True):
        is_labels = labels and paired.mcnemar_p is not None
        detectable = detectable_difference(
            paired.n, paired.units, paired.squared, paired.design_effect, labels=is_labels, tests=len(pairs)
        )
        adjusted = structs.replace(pair, p_holm=p_holm, significant=p_holm < ALPHA, detectable=detectable)
        verdict = adjusted.verdict_on(pair.a, pair.b) if adjusted.significant else INSIDE_THE_NOISE
        found.append(structs.replace(adjusted, verdict=verdict))
    return tuple(found)
