"""The files of judge checks: plants, the judge's labels of them, and the rates, apart from all runs.

Corrected scores never use the rates in `check.json`: they are computed again from plants and labels.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.core.files import sha256_bytes, sha256_text
from longmemeval.core.journal import StoredJournal
from longmemeval.core.text.figures import count_of
from longmemeval.core.text_files import UnreadableError, decode_json
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.judges.definition import compares_words
from longmemeval.judges.plants.planting import Plant
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import first_of, is_named_by_its_hash
from longmemeval.llm.offline import CONTROL_MODELS
from longmemeval.measures.metrics import Score
from longmemeval.measures.notation import Difference, Ranking
from longmemeval.measures.plant_rates import JudgeRates, measured_rates
from longmemeval.memory.configuration import MEMORIES
from longmemeval.memory.definition import Control, MemoryDefinition, is_service
from longmemeval.records import Judgement
from longmemeval.results.lines import RANKINGS, latest_judgements
from longmemeval.results.manifest import RunManifest, stored_manifest
from longmemeval.results.settings import ImportedSettings, MemorySettings, RetrievalSettings, RunSettings
from longmemeval.statistics.misclassification import Corrected, MeasuredRates, corrected_accuracy

FOLDER = "judge-checks"
"""Name of the folder in the results; no run has this name."""
PLANTS, JUDGEMENTS, CHECK = "plants.jsonl", "judgements.jsonl", "check.json"
FORMAT = 3
"""Version of the format; older checks are not used. Since 2, plants follow the benchmark's rules and checks have the
hash of their labels; since 3, plants have names and numbers of the kind that is asked for, and rules judge answers that
were labelled by hand.

Raise it whenever the same questions get other plants: the earlier ones cannot be reproduced.
"""


class JudgeCheck(Struct, frozen=True):
    """`check.json`: the check of one judge on the plants of one dataset."""

    format: int
    judge: JudgeIdentity
    benchmark: str
    dataset: dict[str, str]
    """Name of the dataset and sha256 of its content."""
    seed: int
    questions: int
    """Number of questions that plants were made for."""
    plants_sha256: str
    rates: JudgeRates
    """The rates, for people who read the file."""
    of_questions: int = 0
    """Number of questions in the dataset."""
    judgements_sha256: str = ""
    """Hash of the labels that the rates are computed from."""


class StoredCheck:
    """The files of one check, each read once.

    Args:
        folder: folder of the check.

    Raises:
        UnreadableError: its `check.json` cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = "/".join([FOLDER, folder.parent.name, folder.name])
        """Path of the folder, relative to the results."""
        try:
            data = (folder / CHECK).read_bytes()
        except OSError as error:
            raise UnreadableError(f"it cannot be read: {error.strerror}") from error
        self.check = decode_json(data, JudgeCheck)
        self.sha256 = sha256_bytes(data)
        """Hash of `check.json`."""

    @property
    def earlier(self) -> bool:
        """True if an earlier version wrote it: its plants are no longer generated."""
        return self.check.format < FORMAT

    @cached_property
    def _planted(self) -> StoredJournal[Plant]:
        return StoredJournal(self.folder / PLANTS, Plant)

    @property
    def plants(self) -> list[Plant]:
        """The plants."""
        return self._planted.records

    @cached_property
    def journal(self) -> StoredJournal[Judgement]:
        """The labels, in the order in which the judge gave them."""
        return StoredJournal(self.folder / JUDGEMENTS, Judgement)

    @cached_property
    def judgements(self) -> dict[str, Judgement]:
        """The judgement that counts, by plant id."""
        return latest_judgements(self.journal.records)

    @cached_property
    def rates(self) -> MeasuredRates | None:
        """The rates by which scores are corrected; None if no right plant, or no wrong one, has a label."""
        return measured_rates(self.plants, self.judgements, judged=compares_words(self.check.judge))

    @cached_property
    def problem(self) -> str:
        """The first inconsistency, with the name of its file; empty if there is none."""
        try:
            return next(self._problems(), "")
        except IntegrityError as error:
            return f"{Path(str(error.where)).name}: {error.what}"

    def _problems(self) -> Iterator[str]:
        check = self.check
        if check.format != FORMAT:
            earlier = "an earlier version made it, from plants that are no longer generated"
            yield f"{CHECK}: {earlier if self.earlier else 'a newer version made it'}"
        if check.judge.id != self.folder.parent.name or not is_named_by_its_hash(check.judge):
            yield f"{CHECK}: belongs to another judge than its folder"
        digest = self._planted.sha256
        if digest != check.plants_sha256 or not self.folder.name.endswith(f"-{digest[:8]}"):
            yield f"{PLANTS}: was changed after the check (its sha256 is not the one in {CHECK})"
        if check.judgements_sha256 != self.journal.sha256 and not self.journal.began_as(check.judgements_sha256):
            yield f"{JUDGEMENTS}: was changed after the check (its sha256 is not the one in {CHECK})"
        texts = {plant.plant_id: sha256_text(plant.text) for plant in self.plants}
        for judgement in self.journal.records:
            if judgement.judge_id != check.judge.id or judgement.answer_sha256 != texts.get(judgement.question_id):
                yield (
                    f"{JUDGEMENTS}: plant '{judgement.question_id}' has a label by another judge, or of another text"
                )


def check_folder(results_dir: Path, judge_id: str, dataset: str, plants_sha256: str) -> Path:
    """Return the folder of the check of a judge on these plants."""
    return results_dir / FOLDER / judge_id / f"{dataset}-{plants_sha256[:8]}"


class JudgeChecks:
    """The checks of judges among the results; each is read once.

    Args:
        results_dir: folder of the runs.
    """

    def __init__(self, results_dir: Path) -> None:
        self._results_dir = results_dir
        self._read: dict[str, tuple[list[StoredCheck], list[str]]] = {}

    def of(self, judge: JudgeIdentity, benchmark: str, content_sha256: str) -> StoredCheck | None:
        """Return the check by which scores of this judge are corrected, None without one.

        A check on the same data is preferred to one on other data of the benchmark; of several, the one with the most
        plants. A later grading uses the check of the first. A benchmark without rules for plants has no check.

        Args:
            content_sha256: content hash of the data that was answered.
        """
        checks = self._stored(judge, benchmark)[0]
        same = [stored for stored in checks if stored.check.dataset.get("content_sha256") == content_sha256]
        for candidates in (same, checks):
            if usable := [stored for stored in candidates if not stored.problem and stored.rates]:
                return max(usable, key=lambda stored: stored.rates.plants if stored.rates else 0)
        return None

    def refused(self, judge: JudgeIdentity, benchmark: str) -> list[str]:
        """Return why checks of this judge are not used: folder, file and inconsistency; arguments as for `of`."""
        stored, damaged = self._stored(judge, benchmark)
        return [*damaged, *(f"{check.name}/{check.problem}" for check in stored if check.problem)]

    def earlier(self, judge: JudgeIdentity, benchmark: str) -> list[StoredCheck]:
        """Return the checks that an earlier version wrote; arguments as for `of`."""
        return [check for check in self._stored(judge, benchmark)[0] if check.earlier]

    def _stored(self, judge: JudgeIdentity, benchmark: str) -> tuple[list[StoredCheck], list[str]]:
        if BENCHMARK_SPECS.get(benchmark).planting is None:
            return [], []
        stored, damaged = self._checks_of_judge(judge)
        return [candidate for candidate in stored if candidate.check.benchmark == benchmark], damaged

    def _checks_of_judge(self, judge: JudgeIdentity) -> tuple[list[StoredCheck], list[str]]:
        judge_id = first_of(judge).id
        if judge_id not in self._read:
            stored, damaged = self._read[judge_id] = [], []
            for path in sorted((self._results_dir / FOLDER / judge_id).glob(f"*/{CHECK}")):
                try:
                    stored.append(StoredCheck(path.parent))
                except UnreadableError as error:
                    damaged.append(f"{FOLDER}/{judge_id}/{path.parent.name}/{CHECK}: {error}")
        return self._read[judge_id]


def encoded(check: JudgeCheck) -> bytes:
    """Return the bytes of a check's file."""
    return msgspec.json.format(msgspec.json.encode(check), indent=2) + b"\n"


class CheckedScore(Struct, frozen=True):
    """A score together with a check of its judge."""

    right_passed: float
    """Mean credit of right plants."""
    wrong_passed: float
    """Mean credit of wrong plants."""
    plants: int
    corrected: Corrected | None
    """The corrected accuracy; None: see `reason`."""
    reason: str
    """Clause on why the score cannot be corrected; empty if it is."""
    check: str
    """The folder of the check among the results."""
    of: str
    """The questions that the plants are made for, in words."""
    judged: bool
    """True if the rates rest on answers labelled by hand."""
    other_data: bool
    """True if these questions are from another dataset than the run's."""


def checked_score(
    score: Score, stored: StoredCheck | None, *, labels: bool, content_sha256: str
) -> CheckedScore | None:
    """Return a score with the check of its judge; None if that was not checked, or the check has no rates.

    Args:
        score: score by the judge.
        stored: check of the judge.
        labels: True if the judge gives labels.
        content_sha256: content hash of the data that was answered.
    """
    if stored is None or stored.rates is None:
        return None
    rates, check = stored.rates, stored.check
    correction = corrected_accuracy(
        score.accuracy, score.n, score.interval, rates, not_evaluated=score.not_evaluated, labels=labels
    )
    judged = any(plant.judged == "held out" for plant in stored.plants)
    planted = len({plant.question_id for plant in stored.plants if plant.judged == "held out" or not judged})
    part = "all" if planted == check.of_questions else f"{planted:,} of the"
    seed = f", seed {check.seed}" if check.seed else ""
    return CheckedScore(
        right_passed=rates.right,
        wrong_passed=rates.wrong,
        plants=rates.plants,
        corrected=correction if isinstance(correction, Corrected) else None,
        reason="" if isinstance(correction, Corrected) else correction.reason,
        check=stored.name,
        of=f"{part} {check.of_questions:,} questions of {check.dataset['name']}{seed}",
        judged=judged,
        other_data=check.dataset.get("content_sha256") != content_sha256,
    )


# Controls: runs that are not memory systems, because they understand nothing or are given everything to be found.

R = TypeVar("R")
_CONTROLS = "longmemeval.memory.built_in."
"""The modules of this package that define controls."""


def control_of(settings: RunSettings) -> Control | None:
    """Return the kind of control of a run, by its answering model or memory; None if it is not known to be one."""
    if settings.model_name in CONTROL_MODELS:
        return "floor"
    memory = _memory_of(settings)
    return memory.control if memory else None


def is_full_history(settings: RunSettings) -> bool:
    """Return whether a reading model answered from every message: the run that a memory must beat."""
    memory = None if settings.model_name in CONTROL_MODELS else _memory_of(settings)
    return memory is not None and memory.recalls_everything


def _memory_of(settings: RunSettings) -> MemoryDefinition[Any] | None:
    """Return the definition of a run's memory; None if it cannot be that of a control, of which nothing is imported."""
    # The name of an imported memory is not one of ours.
    if settings.memory is None or isinstance(settings, ImportedSettings) or _is_under_test(settings.memory.preset):
        return None
    try:
        return MEMORIES.get(settings.memory.preset)
    except HarnessError:  # Its package is not installed.
        return None


def _is_under_test(preset: str) -> bool:
    """Return whether a preset is a service, a product, or an engine of this package, whose controls are `built_in`."""
    if is_service(preset) or preset.partition(":")[0] in MEMORIES.further:
        return True
    return not MEMORIES.built_in.get(preset, _CONTROLS).startswith(_CONTROLS)


def controls_last(runs: Sequence[R], control: Callable[[R], Control | None]) -> list[R]:
    """Return runs in the order shown: controls last, but the first stays first, since marks refer to it."""
    return [*runs[:1], *sorted(runs[1:], key=lambda run: control(run) is not None)]


# Stability of the recall of memories when the same question is put twice (`retrieval --twice`).

ASKED_TWICE = "asked_twice"
"""Key of the figures in the totals of a manifest."""
_WORDS: dict[Difference, str] = {
    "ids": "other items",
    "order": "another order",
    "text": "another text",
    "error": "one of the two failed",
}


class Repeatability(Struct, frozen=True):
    """Numbers of second recalls that differed from the first."""

    n: int
    """Number of questions put twice."""
    changed: int
    """Number of these that differed in anything."""
    by_difference: dict[str, int]
    """Number of questions by difference; one may differ in several ways."""

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        questions = count_of(self.n, "question")
        if not self.changed:
            return f"Repeating the same query did not change the result for any of {questions}."
        kinds = "; ".join(f"{words}: {self.by_difference[kind]:,}" for kind, words in _WORDS.items()
                          if kind in self.by_difference)  # fmt: skip
        share = f"{self.changed / self.n * 100:.1f}%"
        return f"Repeating the same query changed the result for {self.changed:,} of {questions}, {share} ({kinds})."


def repeatability(rankings: Iterable[Ranking]) -> Repeatability | None:
    """Return the counts over the questions that were put twice; None if none was."""
    found = [ranking.second for ranking in rankings if ranking.second is not None]
    if not found:
        return None
    counts = {str(kind): count for kind in _WORDS if (count := sum(kind in differences for differences in found))}
    return Repeatability(len(found), sum(map(bool, found)), counts)


def repeatability_of(manifest: RunManifest) -> Repeatability | None:
    """Return the figures in a manifest; None if it has none."""
    stored = manifest.totals.get(ASKED_TWICE)
    return msgspec.convert(stored, Repeatability) if stored else None


class RecallStability:
    """The runs of `retrieval --twice` among the results; read at the first query.

    Args:
        results_dir: folder of the runs.
    """

    def __init__(self, results_dir: Path) -> None:
        self._results_dir = results_dir
        self._found: list[tuple[RunManifest, Repeatability]] | None = None

    def of(self, memory: MemorySettings | None, content_sha256: str) -> Repeatability | None:
        """Return the figures of a memory on the same data; of several runs, those of the one with most questions.

        Args:
            memory: settings of the memory; its name does not count.
            content_sha256: content hash of the data.
        """
        if self._found is None:
            self._found = list(self._read())
        fitting = [
            found
            for manifest, found in self._found
            if memory
            and manifest.dataset.get("content_sha256") == content_sha256
            and (other := manifest.settings.memory)
            and _same(memory) == _same(other)
        ]
        return max(fitting, key=lambda figures: figures.n, default=None)

    def _read(self) -> Iterable[tuple[RunManifest, Repeatability]]:
        for path in sorted(self._results_dir.glob(f"*/{RANKINGS}")):
            try:
                manifest = stored_manifest(path.parent)
                if isinstance(manifest.settings, RetrievalSettings) and (found := repeatability_of(manifest)):
                    yield manifest, found
            except (HarnessError, OSError, msgspec.ValidationError):
                continue  # `verify` reports the damage.


def _same(memory: MemorySettings) -> tuple[str, dict[str, Any], object]:
    return memory.preset, memory.parameters, memory.source
