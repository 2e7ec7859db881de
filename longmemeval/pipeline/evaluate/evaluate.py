"""Grade the stored answers of a run with a judge; the answers are not touched."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.benchmarks.registry import default_judge_of, load_judge
from longmemeval.core.event_loop import complete
from longmemeval.core.journal import Journal
from longmemeval.dataset import Dataset
from longmemeval.errors import BatchCancelledError, EndpointDownError, HarnessError, SpendingLimitError
from longmemeval.judges.definition import prompts_of, rules_of
from longmemeval.judges.protocol import Judge, JudgeIdentity
from longmemeval.judges.template_set import first_of
from longmemeval.judges.votes import recomputed
from longmemeval.llm.costs import JUDGES_SPENDING, Account
from longmemeval.llm.protocol import ChatModel, LimitedChatModel
from longmemeval.llm.registry import load_chat_model, program_note
from longmemeval.llm.tokens import CallCounter
from longmemeval.pipeline.batches.batches import Batches
from longmemeval.pipeline.batches.sending import FOLDER as BATCHES
from longmemeval.pipeline.batches.sending import batches_in
from longmemeval.pipeline.options import EvaluateOptions
from longmemeval.pipeline.progress import progress
from longmemeval.pipeline.workers import Outcomes, WatchedChatModel, run_bounded
from longmemeval.records import Answer, Judgement, Question
from longmemeval.results.graded.graded_run import Evaluation, graded_run
from longmemeval.results.lines import judgements_file
from longmemeval.results.manifest import run_folder
from longmemeval.results.run_files import RunFiles
from longmemeval.results.run_questions import RunQuestions, dataset_of
from longmemeval.results.scores.checked import metrics_of, read_run, recompute_scores, write_metrics
from longmemeval.results.scores.checks import check_labels, refuse, refuse_unanswered
from longmemeval.settings import Folders

# Reuse replies that another judge of the run got to the same requests, instead of paying for them again.


def judgements_at_hand(
    files: RunFiles, run_questions: RunQuestions, identity: JudgeIdentity, wanted: Set[str]
) -> list[Judgement]:
    """Return a judge's judgements from the replies that other judges got.

    Args:
        wanted: questions that the judge has yet to label. One whose reply it could not read is asked again.

    Returns:
        A judgement for each question that another judge got a reply about, if both send the same requests to the same
        model at the same address, in the same repeat.
    """
    todo = wanted - files.current_judgements(identity.id).keys()
    found = dict[str, Judgement]()
    for other in (metrics.judge for metrics in files.metrics):
        if other.id == identity.id or not _sends_the_same(identity, other):
            continue
        for question_id, judgement in files.current_judgements(other.id).items():
            if question_id in todo and judgement.raw:
                found.setdefault(question_id, _read_again(files, run_questions, identity, judgement))
    return [found[question_id] for question_id in run_questions.questions if question_id in found]


def _sends_the_same(judge: JudgeIdentity, other: JudgeIdentity) -> bool:
    prompts = [prompts_of(judge), prompts_of(other)]
    sent = [prompts and prompts.sends for prompts in prompts]
    served = [(identity.model, identity.endpoint, identity.parameters.get("repeat")) for identity in (judge, other)]
    voted = "votes" in judge.parameters or "votes" in other.parameters
    return bool(sent[0]) and sent[0] == sent[1] and served[0] == served[1] and not voted


def _read_again(
    files: RunFiles, run_questions: RunQuestions, identity: JudgeIdentity, judgement: Judgement
) -> Judgement:
    question_id, usage = judgement.question_id, judgement.usage.from_cache(judgement.usage.calls)
    free = replace(judgement, judge_id=identity.id, usage=usage, attempts=0, latency_ms=0.0)
    hypothesis = files.answers[question_id].hypothesis
    reread = recomputed(
        identity, free, run_questions.questions[question_id], run_questions.gold(question_id), hypothesis
    )
    unread = judgement.error or "The judge's reply cannot be read"
    return replace(reread, error="" if reread.label is not None else unread)


__all__ = ["EvaluateOptions", "evaluate"]


def evaluate(
    run_id: str, *, options: EvaluateOptions = EvaluateOptions(), folders: Folders | None = None
) -> Evaluation:
    """Grade the answers of a run and compute its scores.

    Answers that this judge has labelled before are not judged again, unless the call failed.
    Writes `judgements/<judge_id>.jsonl` and `metrics/<judge_id>.json`.

    Raises:
        NoAnswersError: no question has an answer.
        HarnessError: there is no such run, or the dataset is not the one the run answered.
        IntegrityError: the run's files are not as it left them, or do not give the stored scores.
        FatalModelError: no judge call can succeed; labels so far are saved.
        SpendingLimitError, EndpointDownError: grading stopped early; labels so far are saved.
        AllFailedError: the first calls all failed in the same way.
    """
    (evaluation,) = evaluate_by([options.judge], run_id, options=options, folders=folders)
    return evaluation


def evaluate_by(
    judges: Sequence[str | None],
    run_id: str,
    *,
    options: EvaluateOptions = EvaluateOptions(),
    folders: Folders | None = None,
) -> list[Evaluation]:
    """Evaluate a run by several judges, one after the other; its files are read once for all of them.

    Args:
        judges: each as `EvaluateOptions.judge`, which is ignored.
    """
    folders = folders or Folders()
    files, run_questions = answers_to_grade(run_id, options, folders)
    for stored in files.metrics:
        recompute_scores(files, run_questions, stored, grown=True)
    for judge in judges[1:] if options.batch is None else ():
        later = chosen_judge(files, run_questions.dataset, options, folders.data_dir, judge)
        if later.load and unlabelled(files, later.identity):
            later.load(Outcomes(True))  # Refused before the first judge is paid.
    return [_grade(files, run_questions, structs.replace(options, judge=judge), folders) for judge in judges]


def answers_to_grade(run_id: str, options: EvaluateOptions, folders: Folders) -> tuple[RunFiles, RunQuestions]:
    """Return the files of a run whose answers can be graded, and its questions.

    Raises:
        HarnessError: the run is unknown, has no answers or holds rankings, or the dataset is not the one that it
            answered.
        IntegrityError: the run's files have changed.
    """
    files = RunFiles(run_folder(folders.results_dir, run_id))
    if files.manifest.kind == "retrieval":
        raise HarnessError(
            f"Run '{run_id}' contains rankings only, no answers to grade",
            fix="Read its scores in its metrics folder, or make answers with `longmemeval run`",
        )
    read_run(files)
    refuse_unanswered(files)
    return files, RunQuestions(files.manifest, dataset_of(files.manifest, options.dataset, folders))


def _grade(files: RunFiles, run_questions: RunQuestions, options: EvaluateOptions, folders: Folders) -> Evaluation:
    """Have one judge label what it has not labelled, and score the run."""
    judge = chosen_judge(files, run_questions.dataset, options, folders.data_dir, options.judge)
    identity, path = judge.identity, judgements_file(files.folder, judge.identity.id)
    newly_judged = 0
    # Locked while what is left to judge is determined: another process may be judging.
    with Journal(path, Judgement, read=files.judged(identity.id)) as journal:
        files.writes(identity.id, journal.stored)
        try:
            refuse(files, check_labels(files, identity, run_questions))
            todo = set(unlabelled(files, identity))
            at_hand = judgements_at_hand(files, run_questions, identity, todo)
            for judgement in at_hand:
                journal.append(judgement)
            todo -= {judgement.question_id for judgement in at_hand}
            newly_judged = len(at_hand)
            if at_hand and options.tell:
                replies = "replies" if len(at_hand) > 1 else "reply"
                options.tell(f"{len(at_hand)} {replies} to the same requests reused")
            if options.batch is None:
                _refuse_to_pay_twice(files.folder, identity)
            if todo and judge.load:
                if options.tell and (note := program_note(identity.model)):
                    options.tell(note)
                answered = sum(answer.status == "ok" for answer in files.answers.values())
                outcomes = Outcomes(len(todo) < answered, "calls of the judge")
                loaded, batches = judge.load(outcomes)
                judging = _Judging(journal, run_questions, loaded, files.answers, outcomes, batches)
                newly_judged += judging.execute(todo, options.concurrency)
        except (SpendingLimitError, EndpointDownError, BatchCancelledError) as error:
            counted = sum(answer.status == "ok" for answer in files.answers.values())
            labelled = counted - len(unlabelled(files, identity))
            error.where = f"run '{files.folder.name}': {labelled} of {counted} answers have a label and keep it"
            raise
        finally:
            # A judge that refused at once leaves no file.
            if path.exists() and not path.stat().st_size:
                path.unlink()
                files.writes(identity.id, None)
    grading = write_metrics(folders.results_dir, files, run_questions, identity)
    first = first_of(identity)
    metrics = grading if first == identity else metrics_of(files, run_questions, first)
    unanswered = sum(
        question_id not in files.answers or files.answers[question_id].status == "error"
        for question_id in run_questions.questions
    )
    graded = graded_run(files, run_questions, metrics, folders, grading=grading)
    return structs.replace(graded, newly_judged=newly_judged, failed=unanswered + len(unlabelled(files, identity)))


@dataclass(frozen=True)
class ChosenJudge:
    """The judge that is to grade; its model is loaded, and its key read, only when something is left to judge."""

    identity: JudgeIdentity
    made_of: Callable[[Callable[[str], ChatModel]], Judge] | None
    """Makes the judge from a factory of its chat models; None like `load`."""
    load: Callable[[Outcomes], tuple[Judge, Batches | None]] | None
    """Loads the judge; None: one that has graded and is known by its id alone, so that it cannot be asked."""


def chosen_judge(
    files: RunFiles, dataset: Dataset, options: EvaluateOptions, data_dir: Path, spec: str | None = None
) -> ChosenJudge:
    """Return the judge to grade with; with `rejudge` its next repeat that is not done with these answers.

    Args:
        dataset: the data that the run answered; its benchmark's own judge is the default.
        spec: see `EvaluateOptions.judge`.
    """
    spec = default_judge_of(dataset) if spec is None else spec
    for metrics in files.metrics:
        if metrics.judge.id == spec:
            if options.rejudge:
                what = f"'{spec}' is the id of a judge that has graded, which cannot be asked again"
                raise HarnessError(what, fix="Name its model with --judge")
            return ChosenJudge(metrics.judge, None, None)

    account = Account(files.folder / JUDGES_SPENDING, options.spending)

    def model(outcomes: Outcomes, batches: Batches | None, name: str) -> ChatModel:
        if batches:
            return WatchedChatModel(batches, outcomes)
        loaded = load_chat_model(name, options.model_options, account=account)
        return LimitedChatModel(WatchedChatModel(loaded, outcomes), options.concurrency)

    def judge(repeat: int, factory: Callable[[str], ChatModel]) -> Judge:
        return load_judge(
            spec,
            factory,
            benchmark=benchmark_of(dataset),
            votes=options.votes,
            repeat=repeat,
            options=options.model_options,
            data_dir=data_dir,
        )

    def chosen(repeat: int) -> ChosenJudge:
        identity = judge(repeat, CallCounter).identity

        def load(outcomes: Outcomes) -> tuple[Judge, Batches | None]:
            batches = _batches(files.folder, identity, options, account)
            return judge(repeat, partial(model, outcomes, batches)), batches

        return ChosenJudge(identity, partial(judge, repeat), load)

    first = chosen(1)
    if not options.rejudge or not files.judged(first.identity.id).exists:
        return first
    return next(again for again in map(chosen, count(2)) if unlabelled(files, again.identity))


def _batches(folder: Path, judge: JudgeIdentity, options: EvaluateOptions, account: Account) -> Batches | None:
    """Return the batches of a judge; None if it is asked directly, or is rules."""
    if options.batch is None or rules_of(judge.model):
        return None
    stage = folder / BATCHES / judge.id
    tell = options.tell or (lambda line: None)
    return Batches(stage, judge.model, options.model_options, account, options.batch, tell)


def _refuse_to_pay_twice(folder: Path, judge: JudgeIdentity) -> None:
    """Raise if the provider is already working on a batch of this judge."""
    under_way = [batch.id for batch in batches_in(folder / BATCHES / judge.id) if batch.id and not batch.ended]
    if under_way:
        raise HarnessError(
            f"A batch of this judge is with its provider: {', '.join(under_way)}",
            where=f"run '{folder.name}'",
            fix="Add --batch, which fetches it; asking directly would be paid for twice",
        )


def unlabelled(files: RunFiles, judge: JudgeIdentity) -> list[str]:
    """Return the answered questions that a judge has yet to label.

    Rule-based judges are deterministic: what they skipped stays skipped.
    """
    judged = files.current_judgements(judge.id)
    by_rules = rules_of(judge.model) is not None
    settled = {question_id for question_id, judgement in judged.items() if judgement.label is not None or by_rules}
    return [
        question_id
        for question_id, answer in files.answers.items()
        if answer.status == "ok" and question_id not in settled
    ]


@dataclass(frozen=True)
class _Judging:
    """A judge and the answers of a run that it labels."""

    journal: Journal[Judgement]
    run_questions: RunQuestions
    judge: Judge
    answers: Mapping[str, Answer]
    outcomes: Outcomes
    """The outcomes of the judge's calls."""
    batches: Batches | None
    """The batches that the judge's model sends; None: it is asked directly."""

    def execute(self, wanted: Set[str], concurrency: int) -> int:
        """Judge the answers to the `wanted` questions and return how many they are."""
        todo = [question for question_id, question in self.run_questions.questions.items() if question_id in wanted]
        with progress(f"judge {self.judge.identity.model}", len(todo)) as bar:

            async def grade(question: Question) -> None:
                gold = self.run_questions.gold(question.question_id)
                hypothesis = self.answers[question.question_id].hypothesis
                self.journal.append(await self.judge.judge(question, gold, hypothesis))
                bar.advance()
                self.outcomes.check()

            if self.batches:
                attempts = Counter(judgement.question_id for judgement in self.journal.records())
                complete(self.batches.run_bounded(todo, grade, attempts))
            else:
                complete(run_bounded(todo, grade, concurrency))
        return len(todo)
