"""Where the wrongly answered questions of a run were lost, and how much of the evidence reached its prompts."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

from msgspec import Struct

from longmemeval.errors import FixtureError
from longmemeval.measures.losses import Stage, by_session, evidence_recall, stage_of
from longmemeval.records import Answer, Gold, Provenance
from longmemeval.results.graded.graded_run import GradedRun
from longmemeval.settings import Folders
from longmemeval.storage.fixture import fixture_folder, meta_of
from longmemeval.storage.remote_fixtures import refresh_listing


class Losses(Struct, frozen=True):
    """What became of a run's questions."""

    stages: dict[str, Stage | None]
    """By question id; None for a question that was not answered wrongly, and where nothing is known of it."""
    counts: dict[str, int]
    """Questions lost at each stage, in the order of the stages; stages without any are absent."""
    evidence_recall: float | None
    """Mean share of a question's evidence that reached the prompt; None where that is not known."""
    provenance: Provenance
    """On which level the memory says where it found things; the level of `evidence_recall`."""


class StoredSessions:
    """Which sessions the fixtures of runs hold, told by their `meta.json` alone; each is read once.

    Args:
        where: the folders.
    """

    def __init__(self, where: Folders) -> None:
        self._where = where
        self._threads: dict[tuple[str, str, str, str], frozenset[str] | None] = {}
        self.unknown: dict[str, None] = {}
        """Ids of the runs whose fixtures are gone or of other data now, in the order they were asked about."""

    def holds(self, run: GradedRun, question_id: str, identifier: str) -> bool:
        """Whether a message, or a thread, was stored; where that cannot be known, it is not said to be missing.

        Args:
            run: whose preparation is meant.
            question_id: on whose haystack.
            identifier: a message id or a thread id.
        """
        dataset, preparation = run.manifest.dataset, run.manifest.settings.preparation_name
        key = dataset["name"], dataset["sha256"], preparation, run.asked.questions[question_id].haystack_id
        if key not in self._threads:
            self._threads[key] = _thread_ids(self._where.prepared_dir, *key)
        threads = self._threads[key]
        if threads is None:
            self.unknown[run.manifest.run_id] = None
            return True
        return identifier in threads or identifier.rpartition(":")[0] in threads


def _thread_ids(
    prepared_dir: Path, dataset: str, dataset_sha256: str, preparation: str, haystack_id: str
) -> frozenset[str] | None:
    folder = fixture_folder(prepared_dir, dataset, preparation, haystack_id)
    try:
        refresh_listing(folder.parent, again=False)
        meta = meta_of(folder, haystack_id)
    except FixtureError:
        return None
    return frozenset(meta.thread_ids) if meta and meta.dataset.sha256 == dataset_sha256 else None


def losses(run: GradedRun, stored: StoredSessions) -> Losses:
    """Where a run lost its questions.

    Args:
        run: of any kind; of answers of another system nothing is known but which are missing.
        stored: what the fixtures hold; shared by the runs of a comparison.
    """
    disputed, golds = _disputed(run), run.asked.golds()
    stages = {gold.question_id: _stage(run, gold, stored, gold.question_id in disputed) for gold in golds}
    counted = Counter(stages.values())
    provenance = _provenance(run.answers.values())
    known = golds if run.manifest.kind == "run" and provenance != "none" else ()
    answers = run.answers
    if provenance == "session":
        answers = {question_id: by_session(answer) for question_id, answer in answers.items()}
    recalls = [evidence_recall(gold, answers.get(gold.question_id)) for gold in known]
    labelled = [recall for recall in recalls if recall is not None]
    return Losses(
        stages=stages,
        counts={stage: counted[stage] for stage in get_args(Stage) if counted[stage]},
        evidence_recall=sum(labelled) / len(labelled) if labelled else None,
        provenance=provenance,
    )


def _provenance(answers: Iterable[Answer]) -> Provenance:
    """The coarsest of all answers: one figure has one meaning."""
    told = {answer.provenance for answer in answers}
    return "none" if "none" in told else "session" if "session" in told else "message"


def _stage(run: GradedRun, gold: Gold, stored: StoredSessions, disputed: bool) -> Stage | None:
    question_id = gold.question_id
    answer, judgement = run.answers.get(question_id), run.judgements.get(question_id)
    answered = answer is not None and answer.status == "ok"
    wrong = judgement is not None and judgement.label is False
    if answered and not (wrong and run.manifest.kind == "run"):
        return None

    def holds(identifier: str) -> bool:
        return stored.holds(run, question_id, identifier)

    return stage_of(gold, answer, stored=holds, disputed=disputed)


def _disputed(run: GradedRun) -> frozenset[str]:
    """Questions on whose answer the judges of this run disagree, of those that give the same metric."""
    metric = run.metrics.judge.metric
    judges = [scores.judge.id for scores in run.files.metrics if scores.judge.metric == metric]
    if len(judges) < 2:
        return frozenset()
    given: dict[str, set[bool]] = {}
    for judge in judges:
        for question_id, judgement in run.files.current_judgements(judge).items():
            if judgement.label is not None:
                given.setdefault(question_id, set()).add(judgement.label)
    return frozenset(question_id for question_id, labels in given.items() if len(labels) > 1)
