"""`board`: verified runs of many people, ranked no finer than the noise allows."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from random import randrange

from msgspec import Struct

from longmemeval import __version__
from longmemeval.benchmarks.catalogue import catalogue
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.files import safe_name, sha256_file
from longmemeval.core.text.figures import listed
from longmemeval.core.text.paths import without_places
from longmemeval.core.text_files import UnreadableError
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.people import is_person
from longmemeval.judges.template_set import grading, judge_name
from longmemeval.pipeline.verify.fixtures import Remaker
from longmemeval.pipeline.verify.signature import check_signature, fingerprint, public_key, stored_signature
from longmemeval.pipeline.verify.verify import beside, verify
from longmemeval.results.graded.graded_run import Cost, Evaluation, load_graded
from longmemeval.results.lines import ANSWERS
from longmemeval.results.manifest import RunManifest, stored_manifest
from longmemeval.results.scores.stored import stored_metrics
from longmemeval.results.settings import AnswerSettings
from longmemeval.settings import Folders
from longmemeval.statistics.paired import compare_pairs, holm
from longmemeval.statistics.power import ALPHA

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# Identify who signed the runs of a board, by public keys that the board's maker supplies.


class Signer(Struct, frozen=True):
    """The signer of a run."""

    key: str
    """sha256 of the public key; empty: the run is not signed."""
    name: str = ""
    """The name of the key's file; empty: the board's maker has no such key, so nothing was checked."""


class Signers:
    """The public keys in a folder, by fingerprint.

    A key that comes with a run would prove nothing: anyone who changes the run can supply another.

    Args:
        folder: holds files `*.pub` and `*.pem`; None: no keys.

    Raises:
        HarnessError: the folder does not exist, a file holds no public key, or the library is missing.
    """

    def __init__(self, folder: Path | None) -> None:
        if folder and not folder.is_dir():
            raise HarnessError(
                "The folder of public keys does not exist", where=str(folder), fix="Name a folder with *.pub or *.pem"
            )
        files = sorted(path for path in folder.iterdir() if path.suffix in (".pub", ".pem")) if folder else []
        self._files = {fingerprint(public_key(path)): path for path in files}

    def of(self, folder: Path) -> Signer:
        """Return the signer of the run in `folder`.

        Raises:
            HarnessError: the signature does not match the files.
        """
        try:
            stored = stored_signature(folder)
        except UnreadableError as error:
            raise HarnessError(f"its signature is damaged: {error}") from None
        if stored is None:
            return Signer("")
        path = self._files.get(stored.key)
        if path is None:
            return Signer(stored.key)
        if problems := [problem for problem in check_signature(folder, path) if problem]:
            raise HarnessError(f"its signature does not hold: {listed(problems, 1)}")
        return Signer(stored.key, path.stem)


# Verify the runs in people's folders; those that cannot be ranked are listed apart, with the reason.


class Rejected(Struct, frozen=True):
    """A run that is not ranked."""

    submission: str
    """Folder and run of the submission."""
    reason: str


class Submission(Struct, frozen=True):
    """A verified run as one judge graded it."""

    name: str
    """Folder and run of the submission."""
    folder: Path
    checks: int
    """The number of checks that passed."""
    graded: Evaluation
    signer: Signer
    not_checked: tuple[str, ...]
    """Parts of it that could not be checked."""


def run_folders(folders: Sequence[Path]) -> list[tuple[str, Path]]:
    """Return every run below the folders, with a name that includes its folder.

    Raises:
        HarnessError: a folder does not exist, or no folder holds a run.
    """
    found: dict[Path, str] = {}
    for folder in folders:
        if not folder.is_dir():
            raise HarnessError("The folder does not exist", where=str(folder), fix="Name folders that hold runs")
        root = folder.resolve()
        for path in sorted(root.rglob("run.json")):
            inside = path.parent.relative_to(root)
            if not any(part.startswith(".") for part in inside.parts):
                found.setdefault(path.parent, "/".join([root.name, *inside.parts]))
    if not found:
        places = ", ".join(map(str, folders))
        raise HarnessError("No runs in or below the folder", where=places, fix="Name folders that hold runs")
    return [(name, path) for path, name in found.items()]


def _reason(error: HarnessError | OSError) -> str:
    if isinstance(error, OSError):
        return str(error.strerror)
    return f"{error.what}. {error.fix}" if error.fix else error.what


class Verifying:
    """The verifier of runs, against our own data: the data path in a manifest is never followed.

    Args:
        datasets: files, or names of the catalogue, in addition to the catalogue's own.
        folders: the folders; only that of downloaded data is used.
        signers: the known public keys.
    """

    def __init__(self, datasets: Sequence[str], folders: Folders, signers: Signers) -> None:
        self._folders, self._signers = folders, signers
        self._extra = {load_dataset(name, folders.data_dir).content_sha256: name for name in datasets}
        self._catalogued: dict[str, Dataset | HarnessError] = {}
        self._seen: dict[tuple[str, str], str] = {}
        self._remaker = Remaker(randrange(1_000_000), sample=None)

    def submissions(self, name: str, folder: Path) -> Iterator[Submission | Rejected]:
        """Yield a run as each of its judges graded it, or the reason why it is not ranked."""
        try:
            yield from self._submissions(name, folder)
        except (HarnessError, OSError) as error:
            yield Rejected(name, without_places(_reason(error)))

    def _submissions(self, name: str, folder: Path) -> Iterator[Submission | Rejected]:
        manifest = stored_manifest(folder)
        if reason := self._not_listed(manifest, folder, name):
            yield Rejected(name, reason)
            return
        data = self._data_of(manifest)
        folders = beside(folder, self._folders)
        checked = verify(folder.name, dataset=data, folders=folders, remaker=self._remaker)
        if checked.problems:
            yield Rejected(name, f"does not verify: {without_places(listed(checked.problems, 1))}")
            return
        signer = self._signers.of(folder)
        judges = [metrics.judge for metrics in stored_metrics(folder)]
        scored = [judge for judge in judges if grading(judge) == 1 and not is_person(judge)]
        if not scored:
            yield Rejected(name, "is not graded")
        for judge in scored:
            (graded,) = load_graded([folder.name], folders, judge=judge.id, dataset=data)
            yield Submission(name, folder, checked.checked, graded, signer, checked.not_checked)

    def _not_listed(self, manifest: RunManifest, folder: Path, name: str) -> str:
        """Return the reason not to list a run even if it verifies; empty if there is none."""
        if manifest.kind == "retrieval":
            return "holds rankings, no answers"
        if manifest.selection.shard:
            return f"is shard {manifest.selection.shard}; the merged run is what counts"
        if manifest.status != "completed":
            return f"is not completed ({manifest.status})"
        answers = folder / ANSWERS
        key = (manifest.dataset.get("content_sha256", ""), sha256_file(answers) if answers.exists() else "")
        first = self._seen.setdefault(key, name)
        return f"holds the same answers as {first}" if first != name else ""

    def _data_of(self, manifest: RunManifest) -> str:
        """Return our own copy of the dataset that a run answered, as `load_dataset` takes it.

        Raises:
            HarnessError: it is not available.
        """
        name, content = manifest.dataset.get("name", ""), manifest.dataset.get("content_sha256", "")
        if content in self._extra:
            return self._extra[content]
        if name not in catalogue():
            raise HarnessError(f"Its dataset '{name}' is not in the catalogue; --dataset FILE names it")
        if name not in self._catalogued:
            try:
                self._catalogued[name] = load_dataset(name, self._folders.data_dir)
            except HarnessError as error:
                self._catalogued[name] = error
        data = self._catalogued[name]
        if isinstance(data, HarnessError):
            raise data
        if data.content_sha256 != content:
            raise HarnessError(f"It answered other data than {name} of the catalogue")
        return name


# Make a board: fields of comparable runs, and the runs that are not ranked.

Rank = tuple[int, int]
"""The first and the last place that a run may have: `(2, 4)` for each of three runs that share places 2 to 4."""


def ranks(order: int, better: Callable[[int, int], bool]) -> list[Rank]:
    """Return the places of items sorted by score.

    A line is drawn between two neighbours if everything above is better than everything below. Items between
    two lines share their places.

    Args:
        order: number of items, the best first.
        better: returns whether the first is better than the second, beyond the noise.
    """
    found: list[Rank] = []
    begin = 0
    for end in range(1, order + 1):
        if end == order or all(better(above, below) for above in range(end) for below in range(end, order)):
            found += [(begin + 1, end)] * (end - begin)
            begin = end
    return found


def ranked(graded: Sequence[Evaluation]) -> tuple[list[Evaluation], list[Rank]]:
    """Return runs by one judge on the same data, the best first, with their places.

    Two runs over the same questions are separated by the paired test, adjusted for the number of pairs (Holm 1979),
    two over different questions by intervals that do not overlap.
    """
    runs = sorted(graded, key=lambda run: (-run.metrics.overall.accuracy, run.manifest.run_id))
    question_ids = [frozenset(run.asked.questions) for run in runs]
    same = [(a, b) for a, b in combinations(range(len(runs)), 2) if question_ids[a] == question_ids[b]]
    credits = [run.credits for run in runs]
    p_values = holm([compare_pairs(credits[a], credits[b], runs[a].haystacks).p for a, b in same])
    p_of = dict(zip(same, p_values, strict=True))

    def better(above: int, below: int) -> bool:
        if (above, below) in p_of:
            return p_of[above, below] < ALPHA
        return runs[above].metrics.overall.interval[0] > runs[below].metrics.overall.interval[1]

    return runs, ranks(len(runs), better)


BOARD_FORMAT = 1


class Field(Struct, frozen=True, order=True):
    """The properties that runs ranked together have in common."""

    dataset: str
    dataset_sha256: str
    """The hash of the content."""
    judge: str
    judge_id: str
    official: bool
    metric: str
    reader: str
    """Model, reading method and address."""
    budget: str
    """Tokens that a memory may recall; empty: no limit was set."""
    protocol: str


class BoardRow(Struct, frozen=True):
    """One verified run in its field; fractions between 0 and 1."""

    submission: str
    run: str
    memory: str
    rank: Rank | None
    """First and last place; None: a ceiling, a control or not fully checked, which is shown and not ranked."""
    mark: str
    """The reason why it is not ranked, `ceiling`, `control` or `not checked`; or a part of the questions."""
    score: float
    interval: tuple[float, float]
    warnings: tuple[str, ...]
    """Codes of the warnings about the score (docs/grading.md)."""
    n: int
    not_evaluated: int
    prompt_tokens: float | None
    """Mean prompt tokens per question."""
    answers: Cost
    checks: int
    version: str
    """The version of the harness."""
    manifest: str
    """The path of the board's copy of its `run.json`, relative to the page."""
    manifest_sha256: str
    signer: Signer
    """The signer of the run."""
    not_checked: tuple[str, ...] = ()
    """Parts of the run that could not be checked; ranked all the same if a known key vouches for it."""


class BoardField(Struct, frozen=True):
    """A field and its runs, the best first."""

    field: Field
    rows: tuple[BoardRow, ...]


class Board(Struct, frozen=True):
    """The document `board.json`."""

    format: int
    version: str
    """The version of the harness that verified the runs."""
    fields: tuple[BoardField, ...]
    apart: tuple[Rejected, ...]


class MadeBoard(Struct, frozen=True):
    """A board and the manifests that its page links to."""

    board: Board
    manifests: dict[str, Path]
    """Files to copy, by their path below the page's folder."""


def make_board(
    paths: Sequence[Path], *, datasets: Sequence[str] = (), keys: Path | None = None, folders: Folders | None = None
) -> MadeBoard:
    """Verify the runs below `paths` and rank those that pass.

    Args:
        paths: folders of runs, for instance one per person.
        datasets: the runs' data files, if they are not in the catalogue.
        keys: a folder of public keys to check signatures with.
        folders: the folders; only that of downloaded data is used.

    Raises:
        HarnessError: a folder or data file does not exist, or a key cannot be used.
    """
    verifying = Verifying(datasets, folders or Folders(), Signers(keys))
    found = [submission for name, path in run_folders(paths) for submission in verifying.submissions(name, path)]
    by_field: dict[Field, list[Submission]] = {}
    for entry in found:
        if isinstance(entry, Submission):
            by_field.setdefault(_field(entry.graded), []).append(entry)
    fields = tuple(BoardField(field, _rows(by_field[field])) for field in sorted(by_field))
    manifests = {
        _copy_of(submission): submission.folder / "run.json" for group in by_field.values() for submission in group
    }
    apart = tuple(entry for entry in found if isinstance(entry, Rejected))
    return MadeBoard(Board(BOARD_FORMAT, __version__, fields, apart), manifests)


def _field(graded: Evaluation) -> Field:
    manifest, judge = graded.manifest, graded.metrics.judge
    settings = manifest.settings
    reader, budget = "answers of another system", ""
    if isinstance(settings, AnswerSettings):
        served = f", served at {settings.model.api_base}" if settings.model.api_base else ""
        reader = f"{settings.model.spec} ({settings.reading.shown}{served})"
        limit = settings.memory.parameters.get("budget")
        budget = "" if limit is None else f"{limit} tokens"
    protocol = str(settings.official_protocol.get("name", "standard"))
    return Field(
        dataset=manifest.dataset["name"],
        dataset_sha256=manifest.dataset["content_sha256"],
        judge=judge_name(judge),
        judge_id=judge.id,
        official=judge.official,
        metric=judge.metric,
        reader=reader,
        budget=budget,
        protocol=protocol,
    )


def _rows(submissions: Sequence[Submission]) -> tuple[BoardRow, ...]:
    """Return the rows of one field; ceilings, controls and what was not checked come last, without a rank."""
    by_run = {id(submission.graded): submission for submission in submissions}
    competing = [submission.graded for submission in submissions if not _mark(submission)]
    others = [submission.graded for submission in submissions if _mark(submission)]
    runs, places = ranked(competing)
    rest = sorted(others, key=lambda run: -run.metrics.overall.accuracy)
    return (
        *(_row(by_run[id(run)], place) for run, place in zip(runs, places, strict=True)),
        *(_row(by_run[id(run)], None) for run in rest),
    )


def _mark(submission: Submission) -> str:
    if submission.graded.summary.reads_gold:
        return "ceiling"
    if submission.graded.summary.control:
        return "control"
    return "not checked" if submission.not_checked and not submission.signer.name else ""


def _row(submission: Submission, rank: Rank | None) -> BoardRow:
    summary, overall = submission.graded.summary, submission.graded.metrics.overall
    packages = submission.graded.manifest.environment.get("packages", {})
    return BoardRow(
        submission=submission.name,
        run=summary.run_id,
        memory=summary.memory,
        rank=rank,
        mark=_mark(submission) or summary.part,
        score=overall.accuracy,
        interval=overall.interval,
        warnings=tuple(dict.fromkeys(warning.code for warning in summary.warnings)),
        n=overall.n,
        not_evaluated=overall.not_evaluated,
        prompt_tokens=summary.mean_prompt_tokens,
        answers=summary.costs.answers,
        checks=submission.checks,
        version=str(packages.get("longmemeval", "")),
        manifest=_copy_of(submission),
        manifest_sha256=sha256_file(submission.folder / "run.json"),
        signer=submission.signer,
        not_checked=submission.not_checked,
    )


def _copy_of(submission: Submission) -> str:
    return "/".join(["manifests", *map(safe_name, submission.name.split("/"))]) + ".json"
