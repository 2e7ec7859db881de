"""`evaluate`: a judge grades the stored answers of a run; the answers are not touched."""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from msgspec import Struct, structs

from longmemeval.benchmarks.judges import load_judge
from longmemeval.benchmarks.spec import Benchmark
from longmemeval.errors import EndpointDownError, HarnessError, SpendingLimitError
from longmemeval.evaluation.judges.definition import rules_of
from longmemeval.evaluation.judges.protocol import Judge, JudgeIdentity
from longmemeval.evaluation.judges.standing import address_unknown, first_of
from longmemeval.evaluation.metrics import Metrics
from longmemeval.event_loop import complete
from longmemeval.llm.call_counter import CallCounter
from longmemeval.llm.limit import LimitedChatModel
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import load_chat_model
from longmemeval.pipeline.grade.watched_model import WatchedChatModel
from longmemeval.pipeline.runs.accounts import judges_account
from longmemeval.pipeline.runs.asked import AskedQuestions, dataset_of
from longmemeval.pipeline.runs.checked import made_again, read_run
from longmemeval.pipeline.runs.checks import check_labels, refuse
from longmemeval.pipeline.runs.journal import Journal
from longmemeval.pipeline.runs.judgements import current_judgements, judgements_file
from longmemeval.pipeline.runs.manifest import RunManifest, read_manifest, run_folder
from longmemeval.pipeline.runs.progress import progress
from longmemeval.pipeline.runs.scores import metrics_from_files, stored_metrics, write_metrics
from longmemeval.pipeline.runs.workers import Outcomes, in_order
from longmemeval.records import Answer, Judgement, Question
from longmemeval.settings import Folders, folders
from longmemeval.spending import SpendingLimit


class EvaluateOptions(Struct, frozen=True):
    """How to grade."""

    judge: str | None = None
    """A judge's spec (`benchmarks/judges.py`), or the id of one that has graded this run, whose labels are then
    scored without asking it; None: the benchmark's own."""
    votes: int = 1
    """How often a chat model is asked about each answer; the majority is the label."""
    rejudge: bool = False
    """Judge everything again, into a file of its own."""
    model_options: ModelOptions = ModelOptions()
    concurrency: int = 8
    spending: SpendingLimit | None = None
    """What judging this run may cost, all judges and all starts together; None: no limit."""
    dataset: str | None = None
    """Where the gold is, when the run's data set has moved: a catalogue name or a file."""
    tell: Callable[[str], None] | None = None
    """Gets what is worth knowing before the first call: labels that are there and cannot be used."""


class Evaluation(Struct, frozen=True):
    """The figures, and how they came about."""

    metrics: Metrics
    """The score: by the judge's first grading of these answers."""
    grading: Metrics
    """By the grading that was made or added to now: the same, but when judging anew."""
    newly_judged: int
    failed: int
    """Questions not evaluated because an answer or a judge's call is missing; not those that the rules leave out."""
    asked: AskedQuestions

    @property
    def manifest(self) -> RunManifest:
        """Of the run that was graded."""
        return self.asked.manifest


def evaluate(run_id: str, *, options: EvaluateOptions = EvaluateOptions(), where: Folders | None = None) -> Evaluation:
    """Grade the answers of a run and compute its scores.

    Answers this judge has labelled before are not judged again; where a call failed, they are.
    Writes `judgements/<judge_id>.jsonl` and `metrics/<judge_id>.json`.

    Raises:
        HarnessError: no such run, or the data set is not the one the run answered.
        IntegrityError: the run's files are not those that it left, or do not give the scores that are stored.
        FatalModelError: no judge call can succeed; labels so far are kept.
        SpendingLimitError, EndpointDownError: the rest has to wait; labels so far are kept.
        AllFailedError: the first calls all failed in the same way.
    """
    where = where or folders()
    folder = run_folder(where.results_dir, run_id)
    manifest = read_manifest(folder)
    if manifest.kind == "retrieval":
        raise HarnessError(
            f"Run '{run_id}' holds rankings, there is no answer to grade",
            fix="Its figures are in its metrics folder; `longmemeval run` makes answers",
        )
    run = read_run(folder)
    answers = run.answers
    asked = AskedQuestions(manifest, dataset_of(manifest, options.dataset, where))
    for stored in stored_metrics(folder):
        made_again(run, asked, stored, grown=True)
    judge = _chosen_judge(folder, asked.benchmark, answers, options)
    newly_judged = 0
    # Held while it is found out what there is to judge: another process may be judging.
    with Journal(judgements_file(folder, judge.identity.id), Judgement) as journal:
        try:
            refuse(folder, check_labels(folder, judge.identity, asked, answers))
            todo = set(unlabelled(folder, judge.identity, answers))
            if todo and judge.load:
                _tell_of_unused(folder, judge.identity, options)
                answered = sum(answer.status == "ok" for answer in answers.values())
                outcomes = Outcomes(len(todo) < answered, "calls of the judge")
                judging = _Judging(journal, asked, judge.load(outcomes), answers, outcomes)
                newly_judged = judging.execute(todo, options.concurrency)
        except (SpendingLimitError, EndpointDownError) as error:
            counted = sum(answer.status == "ok" for answer in answers.values())
            labelled = counted - len(unlabelled(folder, judge.identity, answers))
            error.where = f"run '{run_id}': {labelled} of {counted} answers have a label and keep it"
            raise
        finally:
            # A judge that refused at once leaves no trace.
            if journal.path.exists() and not journal.path.stat().st_size:
                journal.path.unlink()
    made = write_metrics(where.results_dir, folder, asked, judge.identity)
    first = first_of(judge.identity)
    metrics = made if first == judge.identity else metrics_from_files(folder, asked, first, answers)
    unanswered = sum(one not in answers or answers[one].status == "error" for one in asked.questions)
    left = unlabelled(folder, judge.identity, answers)
    return Evaluation(metrics, made, newly_judged, unanswered + len(left), asked)


@dataclass(frozen=True)
class _ChosenJudge:
    """Who is to grade; its model is loaded, and its key asked for, only when something is left to judge."""

    identity: JudgeIdentity
    load: Callable[[Outcomes], Judge] | None
    """None: a judge that has graded and is known by its id alone, so that it cannot be asked."""


def _chosen_judge(
    folder: Path, benchmark: Benchmark, answers: Mapping[str, Answer], options: EvaluateOptions
) -> _ChosenJudge:
    """The judge to grade with; to judge anew, the next one that is not done with these answers."""
    spec = benchmark.default_judge if options.judge is None else options.judge
    for metrics in stored_metrics(folder):
        if metrics.judge.id == spec:
            if options.rejudge:
                what = f"'{spec}' is the id of a judge that has graded, which cannot be asked again"
                raise HarnessError(what, fix="Name its model with --judge")
            return _ChosenJudge(metrics.judge, None)

    account = judges_account(folder, options.spending)

    def model(outcomes: Outcomes, name: str) -> ChatModel:
        loaded = load_chat_model(name, options.model_options, account=account)
        return LimitedChatModel(WatchedChatModel(loaded, outcomes), options.concurrency)

    def judge(repeat: int, factory: Callable[[str], ChatModel]) -> Judge:
        return load_judge(
            spec,
            factory,
            benchmark=benchmark,
            votes=options.votes,
            repeat=repeat,
            options=options.model_options,
        )

    def chosen(repeat: int) -> _ChosenJudge:
        identity = judge(repeat, CallCounter).identity
        return _ChosenJudge(identity, lambda outcomes: judge(repeat, partial(model, outcomes)))

    first = chosen(1)
    if not options.rejudge or not judgements_file(folder, first.identity.id).exists():
        return first
    return next(again for again in map(chosen, count(2)) if unlabelled(folder, again.identity, answers))


def _tell_of_unused(folder: Path, judge: JudgeIdentity, options: EvaluateOptions) -> None:
    """Tell of labels by the same prompts and model that an earlier version got from who knows where."""
    for metrics in stored_metrics(folder):
        other = metrics.judge
        alike = structs.replace(other, id=judge.id, endpoint=judge.endpoint, official=judge.official) == judge
        if options.tell and alike and address_unknown(other):
            options.tell(
                f"Labels by {other.id} are not used: an earlier version did not record where that judge was served. "
                f"`longmemeval evaluate {folder.name} --judge {other.id}` shows them"
            )


def unlabelled(folder: Path, judge: JudgeIdentity, answers: Mapping[str, Answer]) -> list[str]:
    """The answered questions that a judge has yet to label. Rules that left one out will do so every time."""
    judged = current_judgements(folder, judge.id)
    by_rules = rules_of(judge.model) is not None
    settled = {one for one, judgement in judged.items() if judgement.label is not None or by_rules}
    return [one for one, answer in answers.items() if answer.status == "ok" and one not in settled]


@dataclass(frozen=True)
class _Judging:
    """A judge at work on the answers of a run."""

    journal: Journal[Judgement]
    asked: AskedQuestions
    judge: Judge
    answers: Mapping[str, Answer]
    outcomes: Outcomes
    """Of the judge's calls."""

    def execute(self, wanted: Set[str], concurrency: int) -> int:
        """Judge the answers to the `wanted` questions. Returns how many they are."""
        todo = [question for question_id, question in self.asked.questions.items() if question_id in wanted]
        with progress(f"judge {self.judge.identity.model}", len(todo)) as bar:

            async def grade(question: Question) -> None:
                gold = self.asked.gold(question.question_id)
                hypothesis = self.answers[question.question_id].hypothesis
                self.journal.append(await self.judge.judge(question, gold, hypothesis))
                bar.advance()
                self.outcomes.check()

            complete(in_order(todo, grade, concurrency))
        return len(todo)
