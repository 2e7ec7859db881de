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
"""The same for people."""


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
    """The most tokens that its memory may recall; None: no such bound."""
    deviations: tuple[str, ...] = ()
    """Of a product: its profile, and what is otherwise than as its maker recommends or measures it."""
    cheaper_from: int | Literal["never"] | None = None
    """Number of questions on one history from which its memory costs less than the full history (`break_even`)."""


class Discordant(Struct, frozen=True):
    """The questions that only one of two runs gets right, and the exact McNemar test of them."""

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
    """None: the judge gives scores and not labels."""
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
        """True where `a` is significantly better than `b`."""
        return self.significant and self.difference > 0

    @property
    def turned(self) -> "PairResult":
        """The same result as seen from `b`."""
        low, high = self.interval
        one = self.mcnemar
        return structs.replace(
            self,
            a=self.b,
            b=self.a,
            difference=0.0 - self.difference,
            interval=(0.0 - high, 0.0 - low),
            mcnemar=one and Discordant(one.b_only, one.a_only, one.p),
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
    """Between 0 and 1; None: not evaluated, counts as 0."""
    stages: tuple[str | None, ...]
    """The stages at which a wrongly answered question was lost; None for all others, and if nothing is known."""


class RepeatGroup(Struct, frozen=True):
    """Runs that repeat one configuration: their spread, apart from the sampling error of the questions."""

    name: str
    run_ids: tuple[str, ...]
    spread: Spread
    flips: Flips


class Note(Struct, frozen=True):
    """A sentence on what makes the figures of a comparison less comparable than they look."""

    text: str
    caution: bool = False
    """True if it speaks against the table: it is then shown beside it, not only on request."""


Finding = Literal["score", "better", "worse", "as well as", "alike", "not shown"]


class Verdict(Struct, frozen=True):
    """The answer of a comparison."""

    text: str
    """One sentence."""
    finding: Finding
    """The finding about `run` against `baseline`; `score` for a single run."""
    run: str
    """The best run beside the baseline that is no control; of controls alone, the best of them."""
    baseline: str | None
    """The first run; None for a single run."""
    winner: str | None
    """The run that is better than the baseline and than every other run that is no control; None: there is none."""
    margin: float
    """Between 0 and 1: "as well as" needs the interval of the difference inside it."""
    more: str = ""
    """What goes with the sentence: of how many runs it is the best, whether one wins, what else limits it."""

    @property
    def whole(self) -> str:
        """The sentence with what goes with it."""
        return f"{self.text} {self.more}".rstrip()


class LostGroup(Struct, frozen=True):
    """Questions that a run lost for one cause."""

    cause: str
    count: int
    won_elsewhere: int
    """The number of them that another run answers correctly without the gold evidence."""
    example: str
    """The id of one, of those `won_elsewhere` where there are some."""
    to_try: str
    """Options of `run` or another verb that may mend it; empty where none would."""


class Digest(Struct, frozen=True):
    """Why one run lost its questions."""

    run: str
    lost: int
    """Questions answered wrongly, or not at all."""
    of: int
    groups: tuple[LostGroup, ...]
    """The most frequent cause first."""


class Comparison(Struct, Showing, frozen=True):
    """Runs over the same questions of the same data, graded by the same judge."""

    dataset: str
    runs: tuple[RunFigures, ...]
    pairs: tuple[PairResult, ...]
    """Every run with every later one."""
    questions: tuple[QuestionRow, ...]
    repeats: tuple[RepeatGroup, ...]
    detectable: float | None
    """For one run a planning figure from an assumption (`statistics.power`); for several the largest of the pairs'
    figures: the difference that every pair can show. None if none is known.
    """
    warnings: tuple[str, ...]
    """Warnings that the figures are less comparable than they look, one sentence or two each."""
    verdict: Verdict
    digest: Digest
    """Of the run that the verdict is about."""
    cautions: tuple[str, ...] = ()
    """Those of the warnings that speak against what the table shows."""
    differing: dict[str, str] = {}
    """The settings, beside those of the memories, that the runs differ in: in words, with a sentence on each."""
    common: bool = False
    """True if questions were left out that not all runs answered."""
    not_surviving: tuple[tuple[str, str], ...] = ()
    """Ids of pairs whose difference is not shown when it is corrected for the judge's errors."""
    evaluations: tuple[Evaluation, ...] = ()
    """The runs as they were graded, in their order."""

    def __repr__(self) -> str:
        names = ", ".join(one.summary.run_id for one in self.runs)
        return f"Comparison({self.dataset!r}, {len(self.questions)} questions, {names}: {self.verdict.text})"

    @property
    def from_baseline(self) -> dict[str, PairResult]:
        """Return run id -> the result of that run minus the first one, of all others."""
        first = self.runs[0].summary.run_id
        return {pair.b: pair.turned for pair in self.pairs if pair.a == first}

    @property
    def both_ways(self) -> dict[tuple[str, str], PairResult]:
        """Return the ids of two runs -> the first minus the second, of every pair in both orders."""
        return {(one.a, one.b): one for pair in self.pairs for one in (pair, pair.turned)}

    @property
    def lost(self) -> tuple[LostGroup, ...]:
        """Why the run that the verdict is about lost its questions, the most frequent cause first."""
        return self.digest.groups

    def report(self, path: str | Path = "report.html", *, force: bool = False) -> Path:
        """Write the page on these runs, or tables in Markdown (`.md`) or LaTeX (`.tex`).

        Args:
            path: the file; an earlier report there is replaced.
            force: replace whatever file is there.

        Raises:
            HarnessError: the file is there and is no report, or the extra `report` is missing.
        """
        view().write_comparison(self, Path(path), force)
        return Path(path)
