"""Estimate the calls, tokens, dollars and time of grading, judge by judge, for `evaluate --dry-run`."""

from collections.abc import Sequence

from msgspec import Struct

from longmemeval.core.text.figures import count_of
from longmemeval.judges.definition import rules_of
from longmemeval.llm.registry import check_batches, model_warning
from longmemeval.pipeline.batches.sending import FOLDER as BATCHES
from longmemeval.pipeline.batches.sending import batches_in
from longmemeval.pipeline.estimate.judging import AnswersToJudge
from longmemeval.pipeline.estimate.stages import Pace, Stage
from longmemeval.pipeline.evaluate.evaluate import (
    ChosenJudge,
    EvaluateOptions,
    answers_to_grade,
    chosen_judge,
    judgements_at_hand,
    unlabelled,
)
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.checks import check_labels, refuse
from longmemeval.settings import Folders


class JudgeEstimate(Struct, frozen=True):
    """The estimate of one judge."""

    judge: str
    """The judge's id."""
    labelled: int
    """Answers that it has labelled already."""
    left: int
    stage: Stage
    replies: str
    """The source of the expected length and time of its replies."""


class GradingEstimate(Struct, frozen=True):
    """The estimate of grading a run."""

    run: str
    questions: int
    answered: int
    """The number of answers that can be graded."""
    judges: tuple[JudgeEstimate, ...]
    batch: tuple[str, ...] = ()
    """The stages whose calls go by batch."""
    notes: tuple[str, ...] = ()


def estimate_grading(
    judges: Sequence[str | None], run_id: str, *, options: EvaluateOptions, folders: Folders | None = None
) -> GradingEstimate:
    """Estimate `evaluate_by`; arguments as there. Nothing is called or written.

    Raises:
        HarnessError: anything that `evaluate` would refuse before the first call.
        IntegrityError: the run's files have changed.
    """
    folders = folders or Folders()
    files, run_questions = answers_to_grade(run_id, options, folders)
    pace = Pace(options.model_options.rates, options.concurrency, options.batch is not None)
    to_judge = AnswersToJudge(run_questions, files.answers, folders.results_dir, pace)
    found: list[JudgeEstimate] = []
    notes: dict[str, None] = {}
    for spec in judges:
        judge = chosen_judge(files, run_questions.dataset, options, folders.data_dir, spec)
        refuse(files, check_labels(files, judge.identity, run_questions))
        found.append(_judging(judge, files, to_judge))
        notes |= dict.fromkeys(_notes(judge, files, run_questions, options))
    return GradingEstimate(
        run_id,
        len(run_questions.questions),
        sum(answer.status == "ok" for answer in files.answers.values()),
        tuple(found),
        tuple(estimate.stage.name for estimate in found if estimate.stage.by_batch),
        tuple(notes),
    )


def _judging(judge: ChosenJudge, files: RunFiles, to_judge: AnswersToJudge) -> JudgeEstimate:
    identity, run_questions = judge.identity, to_judge.run_questions
    wanted = set(unlabelled(files, identity))
    answered = sum(answer.status == "ok" for answer in files.answers.values())
    at_hand = {judgement.question_id for judgement in judgements_at_hand(files, run_questions, identity, wanted)}
    to_ask = wanted - at_hand if judge.made_of else set()
    left = [question for name, question in run_questions.questions.items() if name in to_ask]
    stage = to_judge.stage(identity.id, identity.model, judge.made_of, left)
    return JudgeEstimate(identity.id, answered - len(wanted), len(left), stage, stage.replies)


def _notes(judge: ChosenJudge, files: RunFiles, run_questions: RunQuestions, options: EvaluateOptions) -> list[str]:
    """Return notes about a judge that is a chat model."""
    model = judge.identity.model
    if rules_of(model) or not judge.made_of:
        return []
    found = [model_warning(model, options.model_options)]
    if at_hand := judgements_at_hand(files, run_questions, judge.identity, set(unlabelled(files, judge.identity))):
        found.append(f"{count_of(len(at_hand), 'label')} of {judge.identity.id} will follow from existing replies")
    if options.batch:
        check_batches(model)
    under_way = [
        batch for batch in batches_in(files.folder / BATCHES / judge.identity.id) if batch.id and not batch.ended
    ]
    if under_way:
        requests = count_of(sum(len(batch.ids) for batch in under_way), "request")
        found.append(f"{requests} of {model} are with the provider already and counted again here")
    return [note for note in found if note]
