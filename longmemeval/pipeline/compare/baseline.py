"""Compare a run with a baseline, either another run or a small committed file, for `compare --against`."""

from collections.abc import Sequence
from math import floor
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

import msgspec
from msgspec import Struct

from longmemeval.core.files import write_atomic
from longmemeval.core.text.figures import count_of, listed, points, signed_bounds
from longmemeval.core.text_files import UnreadableError, decode_format
from longmemeval.errors import HarnessError, RegressionError, nearest
from longmemeval.results.graded.graded_run import Cost, Evaluation, load_graded
from longmemeval.results.graded.judge_checks import is_full_history
from longmemeval.results.index import settings_sha256
from longmemeval.results.manifest import run_ids
from longmemeval.results.settings import AnswerSettings
from longmemeval.settings import Folders
from longmemeval.statistics.paired import compare_pairs

FORMAT = 1
_NAMED = 10
"""The number of lost questions named in a message; the others are counted."""


class BaselineDataset(Struct, frozen=True, forbid_unknown_fields=True):
    """The data of a baseline."""

    name: str
    content_sha256: str


class BaselineJudge(Struct, frozen=True, forbid_unknown_fields=True):
    """The judge of a baseline."""

    id: str
    model: str
    official: bool


class Baseline(Struct, frozen=True, forbid_unknown_fields=True):
    """The scores that a later run is compared with. Without texts and times: the same scores give the same bytes."""

    format: int
    run: str
    dataset: BaselineDataset
    judge: BaselineJudge
    metric: str
    settings_sha256: str
    credits: dict[str, float | None]
    """Credits by question id, between 0 and 1; None: not evaluated."""


class AgainstBaseline(Struct, frozen=True):
    """A run minus its baseline; differences are fractions between -1 and 1."""

    run: str
    baseline: str
    """The run the baseline was made from."""
    difference: float
    interval: tuple[float, float]
    """95% CI of `difference`, that of the test by which `compare` compares two runs."""
    margin: float
    worse: bool
    """True if the upper end of `interval` is below `-margin`."""
    same_settings: bool
    lost: tuple[str, ...]
    """Ids of the questions that earned less than in the baseline, sorted."""
    won: tuple[str, ...]
    """Ids of the questions that earned more."""


def baseline_of(run: Evaluation) -> Baseline:
    """Make a baseline from a run."""
    dataset, judge = run.manifest.dataset, run.metrics.judge
    return Baseline(
        format=FORMAT,
        run=run.manifest.run_id,
        dataset=BaselineDataset(dataset["name"], dataset["content_sha256"]),
        judge=BaselineJudge(judge.id, judge.model, judge.official),
        metric=judge.metric,
        settings_sha256=settings_sha256(run.manifest),
        credits=run.credits,
    )


def save_baseline(run: Evaluation, path: Path) -> None:
    """Write the baseline of a run to a file."""
    document = msgspec.json.encode(baseline_of(run), order="sorted")
    write_atomic(path, msgspec.json.format(document, indent=2) + b"\n")


def load_baseline(name: str, folders: Folders, *, judge: str | None = None, dataset: str | None = None) -> Baseline:
    """Return the baseline called `name`: a file if there is one, else a run.

    Args:
        name: a path or a run id.
        judge: the judge to use if the baseline is a run (see `load_graded`); a file has its own.
        dataset: the location of the run's data, if it has moved.

    Raises:
        HarnessError: there is neither; the file is no baseline or has a newer format; the run is not graded.
    """
    path = Path(name)
    if path.is_file():
        return _decode(path)
    if not (folders.results_dir / name / "run.json").is_file():
        fix = nearest(name, run_ids(folders.results_dir))
        raise HarnessError(f"Unknown baseline '{name}': neither a file nor a run", fix=fix)
    (run,) = load_graded([name], folders, judge=judge, dataset=dataset)
    return baseline_of(run)


def _decode(path: Path) -> Baseline:
    data = path.read_bytes()
    remedy = "Write it again: `longmemeval compare RUN --save-baseline FILE`"
    try:
        return decode_format(data, Baseline, FORMAT, "The baseline", str(path))
    except UnreadableError as error:
        raise HarnessError(f"The file is not a baseline: {error}", where=str(path), fix=remedy) from error


def compare_to_baseline(run: Evaluation, baseline: Baseline, *, margin: float = 0.0) -> AgainstBaseline:
    """Compare a run with its baseline.

    Args:
        baseline: scores for the same questions of the same data by the same judge.
        margin: how much worse the run may be, a fraction.

    Raises:
        HarnessError: the two differ in data, metric, judge or questions.
    """
    own = baseline_of(run)
    _check_alike(own, baseline)
    paired = compare_pairs(own.credits, baseline.credits, run.haystacks)
    changes = {name: (own.credits[name] or 0.0) - (credit or 0.0) for name, credit in baseline.credits.items()}
    return AgainstBaseline(
        run=own.run,
        baseline=baseline.run,
        difference=paired.difference,
        interval=paired.interval,
        margin=margin,
        worse=paired.interval[1] < -margin,
        same_settings=own.settings_sha256 == baseline.settings_sha256,
        lost=tuple(sorted(name for name, change in changes.items() if change < 0)),
        won=tuple(sorted(name for name, change in changes.items() if change > 0)),
    )


def _check_alike(own: Baseline, baseline: Baseline) -> None:
    rejudge = f"Choose the baseline's judge with --judge {baseline.judge.id}, or save a baseline by this one"
    if own.dataset.content_sha256 != baseline.dataset.content_sha256:
        _refuse(own, baseline, "data", _data(own), _data(baseline), "Rerun on the baseline's data")
    if own.metric != baseline.metric:
        _refuse(own, baseline, "metrics", own.metric, baseline.metric, rejudge)
    if own.judge.id != baseline.judge.id:
        _refuse(own, baseline, "judges", own.judge.id, baseline.judge.id, rejudge)
    if own.credits.keys() != baseline.credits.keys():
        remedy = "Rerun with the baseline's selection"
        _refuse(own, baseline, "questions", _alone(own, baseline), _alone(baseline, own), remedy)


def _alone(baseline: Baseline, other: Baseline) -> str:
    return f"{len(baseline.credits):,}, {len(baseline.credits.keys() - other.credits.keys()):,} of them not shared"


def _data(baseline: Baseline) -> str:
    return f"{baseline.dataset.name} with content {baseline.dataset.content_sha256[:12]}…"


def _refuse(own: Baseline, baseline: Baseline, what: str, ours: str, theirs: str, fix: str) -> NoReturn:
    raise HarnessError(
        f"Run '{own.run}' and baseline '{baseline.run}' have different {what}: {ours}; {theirs}", fix=fix
    )


def regression(results: Sequence[AgainstBaseline]) -> RegressionError | None:
    """Return an error that lists the runs worse than their baseline and what they lost; None if there are none."""
    worse = [result for result in results if result.worse]
    if not worse:
        return None
    return RegressionError(
        " ".join(map(_regression_line, worse)).removesuffix("."),
        fix="If that is meant, save a new baseline: `longmemeval compare RUN --save-baseline FILE`",
    )


def _regression_line(result: AgainstBaseline) -> str:
    settings = "" if result.same_settings else " Their settings differ too."
    return (
        f"Run '{result.run}' is {points(-result.difference)} worse than baseline '{result.baseline}', 95% CI of "
        f"the difference {signed_bounds(result.interval)}, margin {points(result.margin)}. It lost "
        f"{count_of(len(result.lost), 'question')} and won {len(result.won)}; lost: "
        f"{listed(result.lost, _NAMED)}.{settings}"
    )


# Find how many questions per history make a memory, including its preparation, cheaper than the full history.


class _Rates(NamedTuple):
    """Unit costs in US dollars."""

    history: float
    """The cost of preparing one history."""
    question: float
    """The cost of analysing and answering one question."""


def break_even(run: Evaluation, runs: Sequence[Evaluation]) -> int | Literal["never"] | None:
    """Return the number of questions on one history from which a run's memory costs less than the full history.

    If preparing a history costs `p` and answering a question costs `m`, against `P` and `M` for the full history, this
    is the smallest `q` for which `p + q * m < P + q * M`. Judging is left out: it costs the same for both.

    Args:
        runs: all compared runs; one of them should use the full history with the same model and reading.

    Returns:
        "never" if a question costs no less than with the full history. None if that is unknown: there is no such run,
        nothing was paid for, a price is missing, or the cache answered calls, which hides what they cost.
    """
    settings = run.manifest.settings
    full = next(
        (other for other in runs if is_full_history(other.manifest.settings) and _same_reader(other, run)), None
    )
    if full is None or full is run or run.summary.reads_gold or not isinstance(settings, AnswerSettings):
        return None
    mine, its = _rates(run), _rates(full)
    if mine is None or its is None or not its.question:
        return None
    if mine.question >= its.question:
        return "never"
    return max(1, floor((mine.history - its.history) / (its.question - mine.question)) + 1)


def _same_reader(run: Evaluation, other: Evaluation) -> bool:
    a, b = run.manifest.settings, other.manifest.settings
    if not isinstance(a, AnswerSettings) or not isinstance(b, AnswerSettings):
        return False
    return (a.model, a.reading, a.batch) == (b.model, b.reading, b.batch)


def _rates(run: Evaluation) -> _Rates | None:
    costs, histories, questions = run.summary.costs, len(run.manifest.fixtures), run.summary.metrics.overall.n
    prepare, answering = _known(costs.prepare), [_known(costs.question_analysis), _known(costs.answers)]
    if prepare is None or None in answering or not histories or not questions:
        return None
    return _Rates(prepare / histories, sum(usd for usd in answering if usd is not None) / questions)


def _known(cost: Cost) -> float | None:
    return None if cost.cached_calls else cost.usd
