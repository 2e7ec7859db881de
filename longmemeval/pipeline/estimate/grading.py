"""`evaluate --dry-run`: calls, tokens, dollars and time, judge by judge."""

from collections.abc import Sequence

from msgspec import Struct

from longmemeval.core.text.plural import count_of
from longmemeval.judges.definition import rules_of
from longmemeval.llm.registry import check_batches, model_warning
from longmemeval.pipeline.batches.state import FOLDER as BATCHES
from longmemeval.pipeline.batches.state import batches_in
from longmemeval.pipeline.estimate.judging import judging_work
from longmemeval.pipeline.estimate.measured import expected_labels
from longmemeval.pipeline.estimate.stages import Stage, Stages
from longmemeval.pipeline.estimate.work import estimate_calls
from longmemeval.pipeline.evaluate.evaluate import (
    ChosenJudge,
    EvaluateOptions,
    answers_to_grade,
    chosen_judge,
    unlabelled,
)
from longmemeval.pipeline.evaluate.replies import judgements_at_hand
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions
from longmemeval.results.scores.checks import check_labels, refuse
from longmemeval.settings import Folders, folders


class JudgeForecast(Struct, frozen=True):
    """What one judge would take."""

    judge: str
    """Its id."""
    labelled: int
    """Answers that it has labelled already."""
    left: int
    stage: Stage
    replies: str
    """What the expected length and time of its replies come from."""


class GradingForecast(Struct, frozen=True):
    """What grading a run would take."""

    run: str
    questions: int
    answered: int
    """Those that can be graded."""
    judges: tuple[JudgeForecast, ...]
    batch: tuple[str, ...] = ()
    """The stages whose calls go by batch."""
    notes: tuple[str, ...] = ()


def forecast_grading(
    judges: Sequence[str | None], run_id: str, *, options: EvaluateOptions, where: Folders | None = None
) -> GradingForecast:
    """What `evaluate_by` would take; arguments as there. Nothing is called or written.

    Raises:
        HarnessError: what `evaluate` would refuse before the first call.
        IntegrityError: the run's files are not those that it left.
    """
    where = where or folders()
    files, asked = answers_to_grade(run_id, options, where)
    answered = [name for name, answer in files.answers.items() if answer.status == "ok"]
    stages = Stages(options.model_options.rates, batch=options.batch is not None)
    found: list[JudgeForecast] = []
    notes: dict[str, None] = {}
    for spec in judges:
        judge = chosen_judge(files, asked.benchmark, options, where.data_dir, spec)
        refuse(files, check_labels(files, judge.identity, asked))
        found.append(_judging(judge, files, asked, options, stages, where))
        notes |= dict.fromkeys(_notes(judge, files, asked, options))
    return GradingForecast(run_id, len(asked.questions), len(answered), tuple(found), stages.by_batch, tuple(notes))


def _judging(
    judge: ChosenJudge,
    files: RunFiles,
    asked: RunQuestions,
    options: EvaluateOptions,
    stages: Stages,
    where: Folders,
) -> JudgeForecast:
    identity = judge.identity
    wanted = set(unlabelled(files, identity))
    answered = sum(answer.status == "ok" for answer in files.answers.values())
    at_hand = {one.question_id for one in judgements_at_hand(files, asked, identity, wanted)}
    to_ask = wanted - at_hand
    left = [question for name, question in asked.questions.items() if name in to_ask]
    if judge.made_of:
        work = judging_work(identity.model, judge.made_of, asked, files.answers, left)
    else:
        left = []
        work = estimate_calls(identity.model, [], 0, "labels as they are; a judge known by its id is not asked")
    replies = expected_labels(where.results_dir, identity.id, work)
    stage = stages.add(f"judge {identity.model}", work, replies, options.concurrency)
    return JudgeForecast(identity.id, answered - len(wanted), len(left), stage, replies.basis)


def _notes(judge: ChosenJudge, files: RunFiles, asked: RunQuestions, options: EvaluateOptions) -> list[str]:
    """What should be known of a judge that is a chat model."""
    model = judge.identity.model
    if rules_of(model) or not judge.made_of:
        return []
    found = [model_warning(model, options.model_options)]
    if at_hand := judgements_at_hand(files, asked, judge.identity, set(unlabelled(files, judge.identity))):
        found.append(f"{count_of(len(at_hand), 'label')} of {judge.identity.id} will follow from replies at hand")
    if options.batch:
        check_batches(model)
    under_way = [one for one in batches_in(files.folder / BATCHES / judge.identity.id) if one.id and not one.ended]
    if under_way:
        requests = count_of(sum(len(one.ids) for one in under_way), "request")
        found.append(f"{requests} of {model} are with the provider already and counted again here")
    return [one for one in found if one]
