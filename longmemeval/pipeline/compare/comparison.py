"""The results of `compare`: figures of every run, every pair of runs, every question. Nothing is rounded."""

from pathlib import Path
from typing import Literal

from msgspec import Struct, structs

from longmemeval.core.tables.showing import Showing, view
from longmemeval.core.text.figures import points
from longmemeval.pipeline.compare.flips import Flips
from longmemeval.records import Provenance
from longmemeval.results.graded.graded_run import Evaluation, RunSummary
from longmemeval.statistics.spread import Spread

INSIDE_THE_NOISE = "inside the noise"
"""The verdict, for machines, on two runs whose difference is not significant: neither is better."""
NO_DIFFERENCE = "no difference is shown"
"""The verdict, for people, on two runs whose difference is not significant."""


class RunFigures(Struct, frozen=True):
    """The figures of one run in the comparison."""

    summary: RunSummary
    reading: str
    """Reading method and history format; empty for answers of another system."""
    settings_sha256: str
    """Equal for repeats of one configuration."""
    evidence_recall: float | None
    """Mean share of a question's evidence that reached the prompt; None if not known."""
    lost: dict[str, int]
    """Numbers of wrongly answered questions lost at each stage (`measures/losses.py`), in the stages' order."""
    marks: str
    """`▲` or `▼` if the run is significantly better or worse than the first one, else empty."""
    provenance: Provenance = "message"
    """The level of `evidence_recall`: `session` if the memory does not say which messages it found."""
    budget: int | None = None
    """The most tokens that the run's memory may recall; None: no limit."""
    deviations: tuple[str, ...] = ()
    """For a product: its profile, and where its setup departs from what its maker recommends or measures."""
    cheaper_from: int | Literal["never"] | None = None
    """Number of questions on one history from which the memory costs less than the full history (`break_even`)."""


class Discordant(Struct, frozen=True):
    """Numbers of questions that only one of two runs gets right, and the exact McNemar test on them."""

    a_only: int
    b_only: int
    p: float


class PairResult(Struct, frozen=True):
    """Run `a` minus run `b`; differences are fractions between -1 and 1."""

    a: str
    b: str
    difference: float
    interval: tuple[float, float]
    """95 % bootstrap interval of `difference`, over haystacks where questions share them."""
    mcnemar: Discordant | None
    """The discordant questions; None if the judge gives scores and not labels."""
    p: float
    test: str
    """The test that gave `p`."""
    p_holm: float
    """`p` adjusted for the number of pairs (Holm 1979)."""
    significant: bool
    """True if `p_holm` is below 0.05."""
    verdict: str
    """`INSIDE_THE_NOISE`, or which run is better by how much."""

    detectable: float | None = None
    """The smallest difference that the questions show with 80 % power for a pair that disagrees as far as this one, at
    `p` below 0.05. None if they can show none, or the two score alike on every question.
    """

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
            return NO_DIFFERENCE
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


class Note(Struct, frozen=True):
    """A sentence that says why the figures of a comparison are less comparable than they look."""

    text: str
    caution: bool = False
    """True if the note casts doubt on the table: it is then shown with it, not only on request."""


Finding = Literal["score", "better", "worse", "as well as", "alike", "not shown"]


class Verdict(Struct, frozen=True):
    """The conclusion of a comparison."""

    text: str
    """The conclusion in one sentence."""
    finding: Finding
    """The finding about `run` against `baseline`; `score` for a single run."""
    run: str
    """The best run that is neither the baseline nor a control; if all others are controls, the best of them."""
    baseline: str | None
    """The first run; None for a single run."""
    winner: str | None
    """The run that is better than the baseline and every other run, controls apart; None if there is none."""
    margin: float
    """A fraction between 0 and 1: "as well as" needs the interval of the difference to lie inside it."""
    more: str = ""
    """Sentences to follow `text`: how many runs `run` is the best of, whether there is a winner, other limits."""

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
    """Number of questions answered wrongly or not at all."""
    of: int
    """Number of all questions."""
    groups: tuple[LostGroup, ...]
    """The lost questions by cause, the most frequent first."""


class Comparison(Struct, Showing, frozen=True):
    """Runs over the same questions of the same data, graded by the same judge."""

    dataset: str
    runs: tuple[RunFigures, ...]
    pairs: tuple[PairResult, ...]
    """Every run paired with every later one."""
    questions: tuple[QuestionRow, ...]
    repeats: tuple[RepeatGroup, ...]
    detectable: float | None
    """The difference that every pair can show, i.e. the largest of the pairs' figures. For a single run, a planning
    figure that rests on an assumption (`statistics.power`). None if unknown.
    """
    warnings: tuple[str, ...]
    """Warnings that the figures are less comparable than they look, each one or two sentences."""
    verdict: Verdict
    digest: Digest
    """The lost questions of the run that the verdict is about."""
    cautions: tuple[str, ...] = ()
    """The subset of `warnings` that casts doubt on what the table shows."""
    differing: dict[str, str] = {}
    """The settings in which the runs differ, without those of the memories: plain words -> a sentence on each."""
    common: bool = False
    """True if questions that not all runs answered were left out."""
    not_surviving: tuple[tuple[str, str], ...] = ()
    """Ids of the pairs whose difference is no longer shown once corrected for the judge's errors."""
    evaluations: tuple[Evaluation, ...] = ()
    """The graded runs, in the order of `runs`."""

    def __repr__(self) -> str:
        names = ", ".join(run.summary.run_id for run in self.runs)
        return f"Comparison({self.dataset!r}, {len(self.questions)} questions, {names}: {self.verdict.text})"

    @property
    def from_baseline(self) -> dict[str, PairResult]:
        """The result of each other run minus the first, by the other run's id."""
        first = self.runs[0].summary.run_id
        return {pair.b: pair.turned for pair in self.pairs if pair.a == first}

    @property
    def both_ways(self) -> dict[tuple[str, str], PairResult]:
        """Every pair in both orders: ids of two runs -> the first minus the second."""
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
        view().write_comparison(self, Path(path), force)
        return Path(path)
