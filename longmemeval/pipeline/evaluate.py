"""`evaluate`: a judge grades the stored answers of a run; the answers are not touched."""

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from longmemeval.datasets.base import Benchmark, Dataset
from longmemeval.datasets.catalogue import catalogue
from longmemeval.datasets.locomo_format import OPEN_ABSTENTION
from longmemeval.datasets.locomo_protocol import official_questions
from longmemeval.datasets.registry import load_dataset
from longmemeval.errors import DataError, HarnessError, IntegrityError
from longmemeval.evaluation.judges.protocol import Judge, JudgeIdentity
from longmemeval.evaluation.judges.standing import address_unknown, first_of
from longmemeval.evaluation.metrics import Metrics, compute_metrics
from longmemeval.evaluation.registry import RULES, default_judge, load_judge
from longmemeval.event_loop import complete
from longmemeval.files import sha256_file, sha256_text, write_atomic
from longmemeval.llm.limit import LimitedChatModel
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.registry import ModelOptions, load_chat_model
from longmemeval.llm.spending import SpendingLimit, within
from longmemeval.pipeline.answering import ANSWERS, current_answers
from longmemeval.pipeline.call_counter import CallCounter
from longmemeval.pipeline.index import record_score
from longmemeval.pipeline.journal import Journal, read_journal
from longmemeval.pipeline.manifest import RunManifest, read_manifest, run_folder
from longmemeval.pipeline.progress import progress
from longmemeval.pipeline.stored import stored_metrics
from longmemeval.pipeline.workers import in_order
from longmemeval.records import Answer, Gold, Judgement, Question
from longmemeval.settings import Folders, folders


class EvaluateOptions(Struct, frozen=True):
    """How to grade."""

    judge: str | None = None
    """A judge's spec (`evaluation/registry.py`), or the id of one that has graded this run, whose labels are then
    scored without asking it; None: the benchmark's own."""
    votes: int = 1
    """How often a chat model is asked about each answer; the majority is the label."""
    rejudge: bool = False
    """Judge everything anew, into a file of its own."""
    model_options: ModelOptions = ModelOptions()
    concurrency: int = 8
    spending: SpendingLimit | None = None
    """What the judge's calls may cost; None: no limit."""
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
    graded: "Graded"

    @property
    def manifest(self) -> RunManifest:
        """Of the run that was graded."""
        return self.graded.manifest


def evaluate(run_id: str, *, options: EvaluateOptions = EvaluateOptions(), where: Folders | None = None) -> Evaluation:
    """Grade the answers of a run and compute its scores.

    Answers this judge has labelled before are not judged again; where a call failed, they are.
    Writes `judgements/<judge_id>.jsonl` and `metrics/<judge_id>.json`.

    Raises:
        HarnessError: no such run, or the data set is not the one the run answered.
        FatalModelError: no judge call can succeed; labels so far are kept.
    """
    where = where or folders()
    folder = run_folder(where.results_dir, run_id)
    manifest = read_manifest(folder)
    if manifest.kind == "retrieval":
        raise HarnessError(
            f"Run '{run_id}' holds rankings, there is no answer to grade",
            fix="Its figures are in its metrics folder; `longmemeval run` makes answers",
        )
    graded = Graded(manifest, dataset_of(manifest, options.dataset, where))
    answers = current_answers(read_journal(folder / ANSWERS, Answer))
    judge = _chosen_judge(folder, graded.dataset.benchmark, answers, options)
    newly_judged = 0
    # Held while it is found out what there is to judge: another process may be judging.
    with Journal(judgements_file(folder, judge.identity.id), Judgement) as journal:
        try:
            _check_judged_answers(journal, answers)
            todo = set(unlabelled(folder, judge.identity, answers))
            if todo and judge.load:
                _tell_of_unused(folder, judge.identity, options)
                newly_judged = _judge_answers(journal, graded, judge.load(), answers, todo, options.concurrency)
        finally:
            # A judge that refused at once leaves no trace.
            if not journal.path.stat().st_size:
                journal.path.unlink()
    made = write_metrics(where.results_dir, folder, graded, judge.identity)
    first = first_of(judge.identity)
    metrics = made if first == judge.identity else metrics_from_files(folder, graded, first, answers)
    unanswered = sum(one not in answers or answers[one].status == "error" for one in graded.questions)
    left = unlabelled(folder, judge.identity, answers)
    return Evaluation(metrics, made, newly_judged, unanswered + len(left), graded)


class Graded:
    """The questions of a run as they were asked, with their gold: what judges see and scores are made from.

    Args:
        manifest: of the run.
        dataset: what it answered.
    """

    def __init__(self, manifest: RunManifest, dataset: Dataset) -> None:
        self.manifest = manifest
        self.dataset = dataset
        wanted = set(manifest.question_ids)
        asked = {question.question_id: question for question in dataset.questions() if question.question_id in wanted}
        protocol = manifest.settings.get("protocol") or {}
        if protocol.get("name") == "official":
            offered = official_questions(dataset, list(asked.values()), protocol["seed"])
            asked = {question.question_id: question for question in offered}
        if strangers := wanted - asked.keys():
            raise IntegrityError(
                f"Run '{manifest.run_id}' says it answered questions that its data set does not have: "
                + ", ".join(sorted(strangers)[:5]),
                where=str(dataset.path),
                fix="Restore its run.json from a copy",
            )
        self.questions = {question_id: asked[question_id] for question_id in manifest.question_ids}
        self._golds: dict[str, Gold] = {}

    def gold(self, question_id: str) -> Gold:
        """The gold of a question; an adversarial one whose two options were not shown is of another type."""
        if question_id not in self._golds:
            self._golds[question_id] = self._as_asked(self.dataset.gold(question_id))
        return self._golds[question_id]

    def golds(self) -> list[Gold]:
        """All of them, in the order of the questions."""
        return [self.gold(question_id) for question_id in self.questions]

    def _as_asked(self, gold: Gold) -> Gold:
        if gold.trap is None or self.questions[gold.question_id].options:
            return gold
        return structs.replace(gold, question_type=OPEN_ABSTENTION)


def dataset_of(manifest: RunManifest, override: str | None, where: Folders) -> Dataset:
    """The data set a run answered.

    Raises:
        HarnessError: its file is not where it was, or holds something else now.
    """
    name, path = manifest.dataset["name"], Path(manifest.dataset["path"])
    if override is None and not path.exists() and name not in catalogue():
        raise DataError(
            f"The data set '{name}' of run '{manifest.run_id}' is not where it was",
            where=str(path),
            fix="Name the file by --dataset",
        )
    dataset = load_dataset(override or (path if path.exists() else name), where.data_dir)
    if dataset.sha256 != manifest.dataset["sha256"] and dataset.content_sha256 != manifest.dataset["content_sha256"]:
        raise HarnessError(
            f"The run answered other data: sha256 {manifest.dataset['sha256'][:12]}…, this file has "
            f"{dataset.sha256[:12]}…",
            where=str(dataset.path),
            fix="Name the file the run answered by --dataset",
        )
    return dataset


def write_metrics(results_dir: Path, folder: Path, graded: Graded, identity: JudgeIdentity) -> Metrics:
    """Compute the scores of one judge and write `metrics/<judge_id>.json` and the line of the index."""
    metrics = metrics_from_files(folder, graded, identity, current_answers(read_journal(folder / ANSWERS, Answer)))
    path = folder / "metrics" / f"{identity.id}.json"
    write_atomic(path, msgspec.json.format(msgspec.json.encode(metrics), indent=2) + b"\n")
    record_score(results_dir, graded.manifest, metrics)
    return metrics


def metrics_from_files(folder: Path, graded: Graded, identity: JudgeIdentity, answers: Mapping[str, Answer]) -> Metrics:
    """The scores of one judge, from the stored judgements and the run's `answers` alone."""
    judged = judgements_file(folder, identity.id)
    metrics = compute_metrics(
        graded.golds(),
        current_judgements(folder, identity.id),
        identity,
        run=graded.manifest.run_id,
        haystacks={question.question_id: question.haystack_id for question in graded.questions.values()},
        hypotheses={answer.question_id: answer.hypothesis for answer in answers.values() if answer.status == "ok"},
        times=graded.manifest.settings.get("repeated_questions"),
        top_scores={answer.question_id: answer.top_score for answer in answers.values()},
    )
    return structs.replace(metrics, judgements_sha256=sha256_file(judged) if judged.exists() else "")


def judgements_file(folder: Path, judge_id: str) -> Path:
    """Where the judgements of one judge are."""
    return folder / "judgements" / f"{judge_id}.jsonl"


def current_judgements(folder: Path, judge_id: str) -> dict[str, Judgement]:
    """The judgement that counts for each question: its label, or the newest failure if there is none."""
    return _current(read_journal(judgements_file(folder, judge_id), Judgement))


def _current(judgements: Iterable[Judgement]) -> dict[str, Judgement]:
    current: dict[str, Judgement] = {}
    for judgement in judgements:
        if judgement.question_id not in current or current[judgement.question_id].label is None:
            current[judgement.question_id] = judgement
    return current


@dataclass(frozen=True)
class _ChosenJudge:
    """Who is to grade; its model is loaded, and its key asked for, only when something is left to judge."""

    identity: JudgeIdentity
    load: Callable[[], Judge] | None
    """None: a judge that has graded and is known by its id alone, so that it cannot be asked."""


def _chosen_judge(
    folder: Path, benchmark: Benchmark, answers: Mapping[str, Answer], options: EvaluateOptions
) -> _ChosenJudge:
    """The judge to grade with; to judge anew, the next one that is not done with these answers."""
    spec = default_judge(benchmark) if options.judge is None else options.judge
    for metrics in stored_metrics(folder):
        if metrics.judge.id == spec:
            if options.rejudge:
                what = f"'{spec}' is the id of a judge that has graded, which cannot be asked again"
                raise HarnessError(what, fix="Name its model by --judge")
            return _ChosenJudge(metrics.judge, None)

    def model(name: str) -> ChatModel:
        loaded = load_chat_model(name, options.model_options)
        return LimitedChatModel(within(loaded, options.spending), options.concurrency)

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
        return _ChosenJudge(judge(repeat, CallCounter).identity, partial(judge, repeat, model))

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
    settled = {one for one, judgement in judged.items() if judgement.label is not None or judge.model in RULES}
    return [one for one, answer in answers.items() if answer.status == "ok" and one not in settled]


def _check_judged_answers(journal: Journal[Judgement], answers: Mapping[str, Answer]) -> None:
    for question_id, judgement in _current(journal.records()).items():
        if question_id in answers and judgement.answer_sha256 != sha256_text(answers[question_id].hypothesis):
            raise IntegrityError(
                f"Question '{question_id}' was judged on another answer than the run holds now",
                where=str(journal.path),
                fix="Answers are never rewritten: restore answers.jsonl from a copy",
            )


def _judge_answers(
    journal: Journal[Judgement],
    graded: Graded,
    judge: Judge,
    answers: Mapping[str, Answer],
    wanted: Set[str],
    concurrency: int,
) -> int:
    """Judge the answers to the `wanted` questions. Returns how many they are."""
    todo = [question for question_id, question in graded.questions.items() if question_id in wanted]
    with progress(f"judge {judge.identity.model}", len(todo)) as bar:

        async def grade(question: Question) -> None:
            hypothesis = answers[question.question_id].hypothesis
            journal.append(await judge.judge(question, graded.gold(question.question_id), hypothesis))
            bar.advance()

        complete(in_order(todo, grade, concurrency))
    return len(todo)
