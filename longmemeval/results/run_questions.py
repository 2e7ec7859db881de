"""The questions of a run as they were asked, and the data set they are from."""

from collections.abc import Sequence
from copy import copy
from pathlib import Path

from longmemeval.benchmarks.catalogue import catalogue
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.benchmarks.specs import benchmark_of
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, HarnessError, IntegrityError
from longmemeval.records import Gold, Question
from longmemeval.results.manifest import RunManifest
from longmemeval.results.selection import part_of, select
from longmemeval.settings import Folders


class RunQuestions:
    """The questions of a run as they were asked, with their gold: what judges see and scores are made from.

    Args:
        manifest: of the run.
        dataset: what it answered.
    """

    def __init__(self, manifest: RunManifest, dataset: Dataset) -> None:
        self.manifest = manifest
        self.dataset = dataset
        self.benchmark = benchmark_of(dataset)
        everything = list(dataset.questions())
        self.total = len(everything)
        """Questions of the whole data set."""
        wanted = set(manifest.question_ids)
        asked = {question.question_id: question for question in everything if question.question_id in wanted}
        protocol = manifest.settings.official_protocol
        if protocol.get("name") == "official" and (answering := self.benchmark.answering):
            offered = answering.questions(dataset, list(asked.values()), protocol)
            asked = {question.question_id: question for question in offered}
        if strangers := wanted - asked.keys():
            raise IntegrityError(
                f"Run '{manifest.run_id}' says it answered questions that its data set does not have: "
                + ", ".join(sorted(strangers)[:5]),
                where=str(dataset.path),
                fix="Restore its run.json from a copy",
            )
        check_selection(manifest, dataset, everything)
        self.questions = {question_id: asked[question_id] for question_id in manifest.question_ids}
        self._golds: dict[str, Gold] = {}

    def of(self, manifest: RunManifest) -> "RunQuestions":
        """The same for another run that asked these questions of these data in the same way.

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
        """How many questions these are of how many, and how they were chosen; empty for the whole data set."""
        return part_of(self.manifest.selection, len(self.questions), self.total)

    def protocol_note(self, official_metric: bool) -> str:
        """What tables have to say of how the questions were put; empty where the benchmark's protocol was not followed.

        Args:
            official_metric: whether the score is the benchmark's own.
        """
        record, answering = self.manifest.settings.official_protocol, self.benchmark.answering
        return answering.note(record, official_metric) if record and answering else ""

    def gold(self, question_id: str) -> Gold:
        """The gold of a question as it was asked."""
        if question_id not in self._golds:
            gold, as_asked = self.dataset.gold(question_id), self.benchmark.gold_as_asked
            self._golds[question_id] = as_asked(gold, self.questions[question_id]) if as_asked else gold
        return self._golds[question_id]

    def question_type(self, question_id: str) -> str:
        """The type of a question as it was asked."""
        return self.gold(question_id).question_type

    def golds(self) -> list[Gold]:
        """All of them, in the order of the questions."""
        return [self.gold(question_id) for question_id in self.questions]

    def types_by_ability(self) -> dict[str, list[str]]:
        """Ability, of those that all benchmarks share -> the types of the questions that ask for it."""
        found: dict[str, list[str]] = {}
        for gold in self.golds():
            types = found.setdefault(self.benchmark.types.ability_of(gold), [])
            if gold.question_type not in types:
                types.append(gold.question_type)
        return found


def check_selection(manifest: RunManifest, dataset: Dataset, questions: Sequence[Question]) -> None:
    """Refuse a manifest whose questions are not those that its selection gives.

    Args:
        manifest: of the run.
        dataset: what it is about.
        questions: all of the data set's.

    Raises:
        IntegrityError: questions were taken out, or put in, by hand.
    """
    if manifest.selection is None:
        return
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


def _where_it_was(name: str, path: Path, where: Folders) -> Dataset:
    """Of a folder that has names in the catalogue by its name: several may read the same files in different ways."""
    entry = catalogue().get(name)
    if entry and entry.is_folder and path.exists() and path.as_posix().endswith(f"/{entry.file}"):
        return load_dataset(name, path.parents[len(Path(entry.file).parts) - 1])
    return load_dataset(path if path.exists() else name, where.data_dir)


def dataset_of(manifest: RunManifest, override: str | None, where: Folders) -> Dataset:
    """The data set a run answered.

    Raises:
        HarnessError: its file has moved, or holds something else now.
    """
    name, path = manifest.dataset["name"], Path(manifest.dataset["path"])
    if override is None and not path.exists() and name not in catalogue():
        raise DataError(
            f"The data set '{name}' of run '{manifest.run_id}' has moved",
            where=str(path),
            fix="Name the file with --dataset",
        )
    dataset = load_dataset(override, where.data_dir) if override else _where_it_was(name, path, where)
    if dataset.sha256 != manifest.dataset["sha256"] and dataset.content_sha256 != manifest.dataset["content_sha256"]:
        raise HarnessError(
            f"The run answered other data: sha256 {manifest.dataset['sha256'][:12]}…, this file has "
            f"{dataset.sha256[:12]}…",
            where=str(dataset.path),
            fix="Name the file that the run answered with --dataset",
        )
    return dataset
