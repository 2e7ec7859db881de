"""The results of `compare`: figures of every configuration, every pair, every question. Nothing is rounded."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from longmemeval.core.tables.showing import Showing, renderer
from longmemeval.core.text.figures import points
from longmemeval.pipeline.compare.repeats import Flips
from longmemeval.pipeline.compare.sentences import SCORE_WARNINGS, Kind, Sentence
from longmemeval.records import Provenance
from longmemeval.results.graded.graded_run import Evaluation, RunSummary
from longmemeval.statistics.intervals import Spread

INSIDE_THE_NOISE = "inside the noise"
"""The verdict, for machines, on two runs whose difference is not significant: neither is better."""
NOT_SIGNIFICANT = "not significant"
"""The verdict, for people, on two runs whose difference is not significant."""

Family = Literal["baseline", "pairs"]
"""The tests that one table shows, and that Holm's adjustment is over: each run with the baseline, or all pairs."""


class RunFigures(Struct, frozen=True):
    """The figures of one run, or of all repeats of one configuration."""

    summary: RunSummary
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
    """95 % interval of `difference`: it excludes 0 exactly where `p` is below 0.05."""
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
    """The smallest difference that the family's test of this pair finds with 80 % power, given how often the two
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
    """Runs over the same questions of the same data, graded by the same judge."""

    dataset: str
    runs: tuple[RunFigures, ...]
    """Every run, in the order of display."""
    rows: tuple[RunFigures, ...]
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
    """The difference that every test of the family finds with 80 % power, i.e. the largest of the pairs' figures. For a
    single run, a planning figure that rests on an assumption (`statistics.power`). None if unknown.
    """
    sentences: tuple[Sentence, ...]
    """All sentences: the verdict first, then what casts doubt on the table, then notes."""
    verdict: Verdict
    digest: Digest
    """The lost questions of the run that the verdict is about."""
    differing: dict[str, str] = {}
    """The settings in which the runs differ, without those of the memories: plain words -> a sentence on each."""
    common: bool = False
    """True if questions that not all runs answered were left out."""
    not_surviving: tuple[tuple[str, str], ...] = ()
    """Ids of the pairs whose difference is no longer significant once corrected for the judge's errors."""
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
        """Sentences that say why the runs are less comparable than they look; those on scores are with each run."""
        return self._comparability("caution", "note")

    @property
    def cautions(self) -> tuple[str, ...]:
        """The subset of `warnings` that casts doubt on what the table shows."""
        return self._comparability("caution")

    def _comparability(self, *kinds: Kind) -> tuple[str, ...]:
        sentences = [sentence for sentence in self.sentences if sentence.kind in kinds]
        return tuple(sentence.text(self.names) for sentence in sentences if sentence.code not in SCORE_WARNINGS)

    @property
    def metric(self) -> str:
        """The name of the score, which is the same for all runs."""
        return self.rows[0].summary.metrics.judge.metric

    @property
    def ranked(self) -> list[RunFigures]:
        """The rows in the order shown: the highest score first, controls other than the baseline last."""
        baseline = self.rows[0]

        def order(row: RunFigures) -> tuple[bool, float]:
            return row.summary.control is not None and row is not baseline, -row.summary.metrics.overall.accuracy

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
        """The lost questions of the run that the verdict is about, by cause, the most frequent first."""
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
