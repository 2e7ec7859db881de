"""Bridge two judges: the same answers under both, the shift of the score, and the verdicts that change.

A bridge is a file among the results with the hashes of the answers and labels that it rests on. Before its figures are
quoted, they are computed again.
"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

from msgspec import Struct, structs

from longmemeval.core.files import safe_name, sha256_text
from longmemeval.core.text.figures import count_of, percent, signed, signed_bounds
from longmemeval.core.text_files import UnreadableError, decode_format
from longmemeval.errors import HarnessError
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import judge_name
from longmemeval.pipeline.compare.comparable import check_comparable
from longmemeval.pipeline.compare.comparison import PairResult, families_of
from longmemeval.pipeline.compare.repeats import pool_repeats
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.results.lines import ANSWERS
from longmemeval.results.scores.checks import changes
from longmemeval.results.scores.warnings import spec_of
from longmemeval.settings import Folders
from longmemeval.statistics.paired import Concordance, PairedTest, agreement, compare_credits, kappa_interval

FOLDER = "judge-bridges"
"""Name of the folder in the results; no run has this name."""
FORMAT = 1


class BridgedGroup(Struct, frozen=True):
    """Answers to a group of questions under both judges; fractions between 0 and 1."""

    agreement: Concordance
    """Agreement on the answers of all runs; nothing is evaluated by judges of scores, which give no labels."""
    kappa_interval: tuple[float, float] | None
    """95% CI of kappa, over haystacks if questions or runs share them; None where kappa is."""
    old: float
    """Mean score of the runs by the old judge; an answer without a label counts as 0."""
    new: float
    shift: float
    """`new` minus `old`."""
    interval: tuple[float, float]
    """95% CI of `shift`: it excludes 0 exactly where `p` is below 0.05."""
    p: float
    test: PairedTest


class BridgedPair(Struct, frozen=True):
    """The difference of two runs under both judges, adjusted for all pairs."""

    old: PairResult
    new: PairResult
    changed: bool
    """True if the two give another verdict: better, worse or not significant."""


class Bridge(Struct, frozen=True):
    """A bridge between two judges."""

    format: int
    old: JudgeIdentity
    new: JudgeIdentity
    dataset: dict[str, str]
    """Name of the dataset and sha256 of its content."""
    questions: int
    runs: tuple[str, ...]
    overall: BridgedGroup
    by_type: dict[str, BridgedGroup]
    by_run: dict[str, BridgedGroup]
    pairs: tuple[BridgedPair, ...]
    """All pairs of runs; repeats of one configuration go by the first."""
    rests_on: dict[str, str]
    """The sha256 of answers and labels, by their path in the results."""

    @property
    def name(self) -> str:
        """Path of the file in the results: another one for other judges, data or runs."""
        of = sha256_text("\n".join([self.dataset["content_sha256"], *sorted(self.runs)]))[:8]
        return f"{FOLDER}/{self.old.id}/{self.new.id}/{safe_name(self.dataset['name'])}-{of}.json"

    @property
    def judges(self) -> tuple[str, str]:
        """The names of the old and the new judge; their ids where the names are the same."""
        names = judge_name(self.old), judge_name(self.new)
        return names if names[0] != names[1] else (self.old.id, self.new.id)


def bridge_of(old: Sequence[Evaluation], new: Sequence[Evaluation]) -> Bridge:
    """Return the bridge between two judges.

    Args:
        old: the runs as the old judge graded them.
        new: the same runs, in the same order, as the new one did.

    Raises:
        HarnessError: the runs differ in data or questions.
    """
    check_comparable(old)
    first, judges = old[0], (old[0].metrics.judge, new[0].metrics.judge)
    types = {question_id: first.asked.question_type(question_id) for question_id in first.asked.questions}
    graded = list(zip(old, new, strict=True))
    return Bridge(
        format=FORMAT,
        old=judges[0],
        new=judges[1],
        dataset={name: first.manifest.dataset[name] for name in ("name", "content_sha256")},
        questions=len(types),
        runs=tuple(run.id for run in old),
        overall=_group(graded, sorted(types)),
        by_type={
            name: _group(graded, [question_id for question_id in sorted(types) if types[question_id] == name])
            for name in sorted(set(types.values()))
        },
        by_run={pair[0].id: _group([pair], sorted(types)) for pair in graded},
        pairs=tuple(_pairs(old, new)),
        rests_on={
            f"{run.id}/{name}": sha256
            for run in old
            for name, sha256 in (
                (ANSWERS, run.files.sha256(ANSWERS)),
                *((f"judgements/{judge.id}.jsonl", run.files.judged(judge.id).sha256) for judge in judges),
            )
        },
    )


def _group(graded: Sequence[tuple[Evaluation, Evaluation]], questions: Sequence[str]) -> BridgedGroup:
    """Return the figures of some of the questions, over the answers of all runs."""
    units = graded[0][0].haystacks
    # Questions that all share one haystack are units of their own; the runs' answers to one are not.
    units = units if len({units.get(name, name) for name in questions}) > 1 else {}
    old, new = ([{name: run.credits[name] for name in questions} for run in runs] for runs in zip(*graded, strict=True))
    keys = {f"{run.id}/{name}": name for run, _ in graded for name in questions}
    labels = [
        {f"{run.id}/{name}": j.label for run in runs for name, j in run.judgements.items() if _labels(run)}
        for runs in zip(*graded, strict=True)
    ]
    both = {
        key: (a, b) for key in keys if (a := labels[0].get(key)) is not None and (b := labels[1].get(key)) is not None
    }
    scores = [fmean(value or 0.0 for credits in per_run for value in credits.values()) for per_run in (old, new)]
    paired = compare_credits(new, old, units)
    return BridgedGroup(
        agreement=agreement(labels[0], labels[1], keys).overall,
        kappa_interval=kappa_interval(list(both.values()), [units.get(keys[key], keys[key]) for key in both]),
        old=scores[0],
        new=scores[1],
        shift=paired.difference,
        interval=paired.interval,
        p=paired.p,
        test=paired.test,
    )


def _labels(run: Evaluation) -> bool:
    return run.metrics.judge.metric == "accuracy"


def _pairs(old: Sequence[Evaluation], new: Sequence[Evaluation]) -> Iterator[BridgedPair]:
    """Yield the difference of each pair of runs under both judges, as `compare --pairs` tests it."""
    by_judge = []
    for runs in (old, new):
        pools = pool_repeats(runs)
        credits = [[run.credits for run in pool] for pool in pools]
        by_judge.append(families_of([p[0].id for p in pools], credits, runs[0].haystacks, labels=_labels(runs[0])))
    for a, b in zip(*(families.pairs for families in by_judge), strict=True):
        yield BridgedPair(a, b, (a.is_better, a.turned.is_better) != (b.is_better, b.turned.is_better))


# Read bridges back: `verify` recomputes one, `compare` names the one between the judges of its runs.


def read_bridge(file: Path) -> Bridge:
    """Return a stored bridge.

    Raises:
        HarnessError: a newer version made it.
        UnreadableError: it cannot be read.
    """
    try:
        return decode_format(file.read_bytes(), Bridge, FORMAT, "The bridge", str(file))
    except OSError as error:
        raise UnreadableError(f"it cannot be read: {error.strerror}") from error


def check_bridge(file: Path, folders: Folders, dataset: str | None = None) -> Iterator[str | None]:
    """Yield one outcome per check of a bridge: None, or the problem, beginning with the path of the file."""
    name = file.relative_to(folders.results_dir).as_posix()
    again = "`longmemeval judge bridge` writes it again"
    try:
        stored = read_bridge(file)
        ids = stored.old.id, stored.new.id
        found = bridge_of(*(load_graded(stored.runs, folders, judge=judge, dataset=dataset) for judge in ids))
    except (UnreadableError, HarnessError) as error:
        yield f"{name}: {error}"
        return
    yield None if stored.name == name else f"{name}: belongs to {stored.name}"
    for path, sha256 in found.rests_on.items():
        yield None if stored.rests_on.get(path) == sha256 else f"{name}: {path} changed after it was made; {again}"
    changed = changes(structs.replace(stored, rests_on={}), structs.replace(found, rests_on={}))
    yield f"{name}: its files give other figures ({'; '.join(changed[:3])}); {again}" if changed else None


def bridge_sentence(graded: Sequence[Evaluation]) -> str:
    """Return a sentence on the bridge between the two judges of runs, or on how to make one; else an empty text."""
    judges = {run.metrics.judge.id: run.metrics.judge for run in graded}
    if len(judges) != 2 or len({judge.metric for judge in judges.values()}) > 1:
        return ""
    folders, problems = graded[0].folders, list[str]()
    for old, new in (tuple(judges), tuple(judges)[::-1]):
        for file in sorted((folders.results_dir / FOLDER / old / new).glob("*.json")):
            found = [problem for problem in check_bridge(file, folders) if problem]
            if not found:
                return f". {_named(read_bridge(file))}"
            problems += found
    if problems:
        return f". The bridge between these judges cannot be used: {problems[0].rstrip('.')}"
    for asked in reversed(judges.values()):
        if spec := spec_of(asked, graded[0].asked):
            old = next(judge for judge in judges if judge != asked.id)
            runs = [run.id for run in graded if run.metrics.judge.id == old]
            command = shlex.join(["longmemeval", "judge", "bridge", old, spec, *runs])
            return f", or measure how the judges differ: `{command}`"
    return ""


def _named(bridge: Bridge) -> str:
    old, new = bridge.judges
    group, answers = bridge.overall, count_of(len(bridge.runs) * bridge.questions, "answer")
    return (
        f"The bridge {bridge.name} compares these judges on {answers}: {new} minus {old} is {signed(group.shift)} "
        f"points, 95% CI {signed_bounds(group.interval)}, and they agree on {percent(group.agreement.agreed)}"
    )
