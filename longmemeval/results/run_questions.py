"""The questions of a run as they were put, and their dataset."""

from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any, TypeVar, cast

from longmemeval.benchmarks.catalogue import benchmark_of, catalogue, units_of
from longmemeval.benchmarks.registry import foreign_questions, load_dataset
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, HarnessError, IntegrityError
from longmemeval.records import Gold, Question
from longmemeval.results.manifest import RunManifest
from longmemeval.results.selection import part_of, select
from longmemeval.settings import Folders

M = TypeVar("M")


class RunQuestions:
    """The questions of a run as they were put, with their gold: the input of judges and scores.

    Args:
        dataset: the dataset that the run answered.
    """

    def __init__(self, manifest: RunManifest, dataset: Dataset) -> None:
        self.manifest = manifest
        self.dataset = dataset
        self.benchmark = benchmark_of(dataset)
        everything = list(dataset.questions())
        self.total = len(everything)
        """Number of questions in the whole dataset."""
        wanted = set(manifest.question_ids)
        selected = {question.question_id: question for question in everything if question.question_id in wanted}
        protocol = manifest.settings.official_protocol
        if protocol.get("name") == "official" and (answering := self.benchmark.answering):
            offered = answering.questions(dataset, list(selected.values()), protocol)
            selected = {question.question_id: question for question in offered}
        if unknown := wanted - selected.keys():
            raise IntegrityError(
                f"Run '{manifest.run_id}' says it answered questions that its dataset does not have: "
                + ", ".join(sorted(unknown)[:5]),
                where=str(dataset.path),
                fix="Restore its run.json from a copy",
            )
        check_selection(manifest, dataset, everything)
        self.questions = {question_id: selected[question_id] for question_id in manifest.question_ids}
        self._golds: dict[str, Gold] = {}
        self._derived: dict[str, Any] = {}

    def of(self, manifest: RunManifest) -> "RunQuestions":
        """Return the questions for another run that put the same ones, from the same data, in the same way.

        Raises:
            IntegrityError: its questions are not those that its selection gives.
        """
        if manifest.selection != self.manifest.selection:
            check_selection(manifest, self.dataset, list(self.dataset.questions()))
        other = copy(self)
        other.manifest = manifest
        return other

    @property
    def part(self) -> str:
        """Number of questions out of the total, and how they were chosen; empty for the whole dataset."""
        return part_of(self.manifest.selection, len(self.questions), self.total)

    def protocol_note(self, official_metric: bool) -> str:
        """Return the note for tables on how the questions were put; empty unless the benchmark's protocol was followed.

        Args:
            official_metric: True if the score is the benchmark's own.
        """
        record, answering = self.manifest.settings.official_protocol, self.benchmark.answering
        return answering.note(record, official_metric) if record and answering else ""

    @property
    def units(self) -> dict[str, str]:
        """Question id -> the group it is resampled with, mostly its haystack."""
        return self.once("units", lambda: units_of(self.dataset, self.questions.values()))

    def once(self, name: str, make: Callable[[], M]) -> M:
        """Return a result that depends on the questions alone, computed once for all runs that put them.

        Args:
            name: name of the result; one name always has one type.
            make: computes it; called on first use.
        """
        if name not in self._derived:
            self._derived[name] = make()
        # The same function made the value under this name.
        return cast("M", self._derived[name])

    def gold(self, question_id: str) -> Gold:
        """Return the gold of a question as it was put."""
        if question_id not in self._golds:
            gold, as_asked = self.dataset.gold(question_id), self.benchmark.gold_as_asked
            self._golds[question_id] = as_asked(gold, self.questions[question_id]) if as_asked else gold
        return self._golds[question_id]

    def question_type(self, question_id: str) -> str:
        """Return the type of a question as it was put."""
        return self.gold(question_id).question_type

    def golds(self) -> list[Gold]:
        """Return the gold of all questions, in their order."""
        return [self.gold(question_id) for question_id in self.questions]

    @property
    def foreign(self) -> frozenset[str]:
        """Ids of the questions that are not in English, or whose gold is not."""
        return self.once("foreign", lambda: foreign_questions(self.questions.values(), self.gold))

    def types_by_ability(self) -> dict[str, list[str]]:
        """Return the question types by the abilities that all benchmarks share."""
        found: dict[str, list[str]] = {}
        for gold in self.golds():
            types = found.setdefault(self.benchmark.types.ability_of(gold), [])
            if gold.question_type not in types:
                types.append(gold.question_type)
        return found


def check_selection(manifest: RunManifest, dataset: Dataset, questions: Sequence[Question]) -> None:
    """Raise an error if the questions of a manifest are not those that its selection gives.

    Args:
        dataset: its dataset.
        questions: all questions of the dataset.

    Raises:
        IntegrityError: questions were removed, or added, by hand.
    """
    chosen = select(questions, manifest.selection, dataset.question_type)
    selected = {question.question_id for question in chosen}
    changed = [*(selected - set(manifest.question_ids)), *(set(manifest.question_ids) - selected)]
    if changed:
        raise IntegrityError(
            f"Run '{manifest.run_id}' does not have the questions that its selection gives: {len(changed):,} are "
            f"missing or too many, such as {', '.join(sorted(changed)[:5])}",
            where="run.json",
            fix="Restore it from a copy",
        )


def _load_original(name: str, path: Path, folders: Folders) -> Dataset:
    """Load a dataset from its path, or by name if the catalogue names the files in its folder.

    Several names may read the files of a folder in different ways.
    """
    entry = catalogue().get(name)
    if entry and entry.is_folder and path.exists() and path.as_posix().endswith(f"/{entry.file}"):
        return load_dataset(name, path.parents[len(Path(entry.file).parts) - 1])
    return load_dataset(path if path.exists() else name, folders.data_dir)


def dataset_of(manifest: RunManifest, override: str | None, folders: Folders) -> Dataset:
    """Return the dataset that a run answered.

    Raises:
        HarnessError: its file has moved, or now holds other data.
    """
    name, path = manifest.dataset["name"], Path(manifest.dataset["path"])
    if override is None and not path.exists() and name not in catalogue():
        raise DataError(
            f"The dataset '{name}' of run '{manifest.run_id}' has moved",
            where=str(path),
            fix="Name the file with --dataset",
        )
    dataset = load_dataset(override, folders.data_dir) if override else _load_original(name, path, folders)
    if dataset.sha256 != manifest.dataset["sha256"] and dataset.content_sha256 != manifest.dataset["content_sha256"]:
        raise HarnessError(
            f"The run answered other data: sha256 {manifest.dataset['sha256'][:12]}…, this file has "
            f"{dataset.sha256[:12]}…",
            where=str(dataset.path),
            fix="Name the file that the run answered with --dataset",
        )
    return dataset
