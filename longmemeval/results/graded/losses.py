"""The stages at which a run lost its wrongly answered questions, and the share of evidence that reached its prompts."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import get_args

from msgspec import Struct

from longmemeval.errors import FixtureError
from longmemeval.measures.losses import Stage, by_session, evidence_recall, stage_of
from longmemeval.records import Answer, Provenance
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.settings import Folders
from longmemeval.storage.fixture import fixture_folder, meta_of
from longmemeval.storage.remote_fixtures import refresh_listing


class Losses(Struct, frozen=True):
    """The stages at which a run lost its questions."""

    stages: dict[str, Stage | None]
    """Stage by question id; None for a question that was not answered wrongly, or about which nothing is known."""
    counts: dict[str, int]
    """Number of questions lost at each stage, in the order of the stages; stages without any are absent."""
    evidence_recall: float | None
    """Mean share of a question's evidence that reached the prompt; None if unknown."""
    provenance: Provenance
    """Level at which the memory states provenance; the level of `evidence_recall`."""


class StoredSessions:
    """The sessions that the fixtures of runs hold, read from each `meta.json` once."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._threads: dict[tuple[str, str, str, str], frozenset[str] | None] = {}
        self.unknown: dict[str, None] = {}
        """Ids of the runs whose fixtures are gone or of other data now, in the order of the queries."""

    def holds(self, run: Evaluation, question_id: str, identifier: str) -> bool:
        """Return whether a message, or a thread, was stored; True if that is unknown.

        Args:
            run: run whose preparation is searched.
            question_id: question whose haystack is searched.
            identifier: a message id or a thread id.
        """
        dataset, preparation = run.manifest.dataset, run.manifest.settings.preparation
        key = dataset["name"], dataset["sha256"], preparation, run.asked.questions[question_id].haystack_id
        if key not in self._threads:
            self._threads[key] = _thread_ids(self._folders.prepared_dir, *key)
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


def losses(run: Evaluation, stored: StoredSessions) -> Losses:
    """Return the stages at which a run lost its questions.

    Args:
        run: run of any kind; of answers of another system only their labels are known, and not what was recalled.
        stored: the sessions in the fixtures; shared by the runs of a comparison.
    """
    answers, judgements, own = run.answers, run.judgements, run.manifest.kind == "run"
    contested, golds = disputed(run), run.asked.golds()
    stages: dict[str, Stage | None] = dict.fromkeys(run.asked.questions)
    for gold in golds:
        name = gold.question_id
        answer, judgement = answers.get(name), judgements.get(name)
        unanswered = answer is None or answer.status != "ok"
        if judgement is not None and judgement.label is False and not own and not unanswered:
            stages[name] = "no provenance"
        elif unanswered or (judgement is not None and judgement.label is False):
            stages[name] = stage_of(gold, answer, stored=partial(stored.holds, run, name), disputed=name in contested)
    counted = Counter(stages.values())
    provenance = _provenance(answers.values())
    known = golds if own and provenance != "none" else ()
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
    """Return the coarsest provenance of all answers, so that one figure has one meaning."""
    levels = {answer.provenance for answer in answers}
    return "none" if "none" in levels else "session" if "session" in levels else "message"


def disputed(run: Evaluation) -> frozenset[str]:
    """Return the questions whose answer gets different labels from the judges of this run with the same metric."""
    metric = run.metrics.judge.metric
    judges = [scores.judge.id for scores in run.files.metrics if scores.judge.metric == metric]
    if len(judges) < 2:
        return frozenset()
    labels_by_question: dict[str, set[bool]] = {}
    for judge in judges:
        for question_id, judgement in run.files.current_judgements(judge).items():
            if judgement.label is not None:
                labels_by_question.setdefault(question_id, set()).add(judgement.label)
    return frozenset(question_id for question_id, labels in labels_by_question.items() if len(labels) > 1)
