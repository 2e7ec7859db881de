"""Verify the runs in people's folders; those that cannot be ranked are listed apart, with the reason."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import randrange

from msgspec import Struct

from longmemeval.benchmarks.catalogue import catalogue
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.files import sha256_file
from longmemeval.core.text.figures import listed
from longmemeval.core.text.paths import without_places
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.people import is_person
from longmemeval.judges.template_set import grading
from longmemeval.pipeline.board.signers import Signer, Signers
from longmemeval.pipeline.verify.remake import Remaker
from longmemeval.pipeline.verify.verify import beside, verify
from longmemeval.results.graded.graded_run import Evaluation, load_graded
from longmemeval.results.lines import ANSWERS
from longmemeval.results.manifest import RunManifest, stored_manifest
from longmemeval.results.scores.stored import stored_metrics
from longmemeval.settings import Folders


class Apart(Struct, frozen=True):
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
            raise HarnessError("There is no such folder", where=str(folder), fix="Name folders that hold runs")
        root = folder.resolve()
        for path in sorted(root.rglob("run.json")):
            inside = path.parent.relative_to(root)
            if not any(part.startswith(".") for part in inside.parts):
                found.setdefault(path.parent, "/".join([root.name, *inside.parts]))
    if not found:
        places = ", ".join(map(str, folders))
        raise HarnessError("There are no runs in or below the folder", where=places, fix="Name folders that hold runs")
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

    def submissions(self, name: str, folder: Path) -> Iterator[Submission | Apart]:
        """Yield a run as each of its judges graded it, or the reason why it is not ranked."""
        try:
            yield from self._submissions(name, folder)
        except (HarnessError, OSError) as error:
            yield Apart(name, without_places(_reason(error)))

    def _submissions(self, name: str, folder: Path) -> Iterator[Submission | Apart]:
        manifest = stored_manifest(folder)
        if reason := self._not_listed(manifest, folder, name):
            yield Apart(name, reason)
            return
        data = self._data_of(manifest)
        folders = beside(folder, self._folders)
        checked = verify(folder.name, dataset=data, folders=folders, remaker=self._remaker)
        if checked.problems:
            yield Apart(name, f"does not verify: {without_places(listed(checked.problems, 1))}")
            return
        signer = self._signers.of(folder)
        judges = [metrics.judge for metrics in stored_metrics(folder)]
        scored = [judge for judge in judges if grading(judge) == 1 and not is_person(judge)]
        if not scored:
            yield Apart(name, "is not graded")
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
        """Return our own copy of the data set that a run answered, as `load_dataset` takes it.

        Raises:
            HarnessError: it is not available.
        """
        name, content = manifest.dataset.get("name", ""), manifest.dataset.get("content_sha256", "")
        if content in self._extra:
            return self._extra[content]
        if name not in catalogue():
            raise HarnessError(f"Its data set '{name}' is not in the catalogue; --dataset FILE names it")
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
