"""One row per question of a run: what was asked and answered, and of graded runs the gold, the labels and the loss."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from longmemeval.core.tables.table import Column, Value, frame
from longmemeval.measures.losses import evidence_recall
from longmemeval.records import Answer, Gold, Judgement, Question
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.graded.losses import StoredSessions, losses
from longmemeval.results.run_files import RunFiles

Form = Literal["text", "integer", "number", "truth"]


class QuestionResult(Struct, frozen=True):
    """What became of one question."""

    question: Question
    answer: Answer | None
    gold: Gold | None = None
    """None: not graded."""
    ability: str = ""
    lost_at: str | None = None
    """The stage at which a wrong answer was lost (`measures/losses.py`)."""
    judgements: Mapping[str, Judgement | None] = {}
    """By judge id."""


class FrameColumn(Column[QuestionResult], frozen=True):
    """A column of the frame, with what a reader of the file has to know."""

    form: Form = "text"
    meaning: str = ""


def question_rows(
    run: Evaluation | RunFiles, questions: Mapping[str, Question] | None = None
) -> list[dict[str, Value]]:
    """Return the rows of a run, in the order of its questions; `question_columns` says what is in them.

    Args:
        run: a graded run, or the files of one that is not graded: then nothing of the gold is in the rows.
        questions: of a run that is not graded, by id.
    """
    return frame(question_columns(run), question_results(run, questions))


def question_columns(run: Evaluation | RunFiles) -> list[FrameColumn]:
    """Return the columns of a run; of a graded one the first judge is that of its score, unless several graded it."""
    own = run.manifest.kind == "run"
    if isinstance(run, RunFiles):
        return [*_ASKED, *_ANSWERED, *(_SENT if own else []), _ERROR]
    judges = [metrics.judge.id for metrics in run.files.metrics]
    labels = [column for judge in judges for column in _judged(judge)]
    return [
        *_ASKED[:1],
        *_TYPE,
        *_ASKED[1:],
        *_GOLD,
        *_ANSWERED,
        *labels,
        _LOST,
        *([*_RECALLED, *_SENT] if own else []),
        _ERROR,
    ]


def metadata_columns(run: Evaluation) -> list[FrameColumn]:
    """Return the right answer, and the columns that other tools' records of a question have no place for."""
    own = run.manifest.kind == "run"
    return [*_GOLD, _ASKED[2], *_TYPE, _LOST, *([*_RECALLED, *_SENT] if own else [])]


def question_results(
    run: Evaluation | RunFiles, questions: Mapping[str, Question] | None = None
) -> list[QuestionResult]:
    """Return what became of each question of a run, in their order; arguments as of `question_rows`."""
    if isinstance(run, RunFiles):
        return [QuestionResult(question, run.answers.get(name)) for name, question in (questions or {}).items()]
    stages = losses(run, StoredSessions(run.folders)).stages
    judged = {metrics.judge.id: run.files.current_judgements(metrics.judge.id) for metrics in run.files.metrics}
    return [
        QuestionResult(
            run.asked.questions[gold.question_id],
            run.answers.get(gold.question_id),
            gold,
            run.asked.benchmark.types.ability_of(gold),
            stages[gold.question_id],
            {judge: judgements.get(gold.question_id) for judge, judgements in judged.items()},
        )
        for gold in run.asked.golds()
    ]


def _judged(judge: str) -> Sequence[FrameColumn]:
    def given(row: QuestionResult) -> Judgement | None:
        return row.judgements.get(judge)

    return (
        FrameColumn(
            f"label {judge}",
            lambda row: one.label if (one := given(row)) else None,
            form="truth",
            meaning="Whether this judge calls the answer right; nothing: not evaluated, which counts as wrong",
        ),
        FrameColumn(
            f"score {judge}",
            lambda row: one.score if (one := given(row)) else None,
            form="number",
            meaning="Credit between 0 and 1, of judges that give more than right or wrong",
        ),
    )


def _of_answer(title: str, value: Callable[[Answer], Value], form: Form, meaning: str) -> FrameColumn:
    return FrameColumn(title, lambda row: value(row.answer) if row.answer else None, form=form, meaning=meaning)


def _of_gold(title: str, value: Callable[[Gold], Value], meaning: str, form: Form = "text") -> FrameColumn:
    return FrameColumn(title, lambda row: value(row.gold) if row.gold else None, form=form, meaning=meaning)


def _cost(answer: Answer) -> float | None:
    return None if answer.usage.unpriced_calls else answer.usage.cost_usd


_ASKED = (
    FrameColumn("question_id", lambda row: row.question.question_id, meaning="Id in the data set"),
    FrameColumn("question", lambda row: row.question.text, meaning="As it was put"),
    FrameColumn("question_date", lambda row: row.question.date_text, meaning="When it is asked, as the data says it"),
)
_TYPE = (
    _of_gold("question_type", lambda gold: gold.question_type, "Type by the benchmark"),
    FrameColumn("ability", lambda row: row.ability, meaning="Type in the vocabulary that all benchmarks share"),
)
_GOLD = (
    _of_gold("gold", lambda gold: gold.answer, "The right answer"),
    _of_gold("unanswerable", lambda gold: gold.abstention, "Whether it is right to decline", "truth"),
)
_ANSWERED = (
    _of_answer("hypothesis", lambda answer: answer.hypothesis, "text", "The answer of the run"),
    FrameColumn(
        "status",
        lambda row: row.answer.status if row.answer else "missing",
        meaning="ok; missing: there is no answer; else why there is none",
    ),
)
_LOST = FrameColumn(
    "lost_at",
    lambda row: row.lost_at,
    meaning="Where a wrong answer was lost, by the official judge, else the newest; nothing: it was not lost",
)
_RECALLED = (
    _of_answer("recalled", lambda answer: len(answer.recall_ids), "integer", "Messages that reached the prompt"),
    _of_answer("cut", lambda answer: len(answer.cut_ids), "integer", "Recalled messages that did not fit the prompt"),
    FrameColumn(
        "evidence_recall",
        lambda row: evidence_recall(row.gold, row.answer) if row.gold else None,
        form="number",
        meaning="Share of the labelled evidence that reached the prompt",
    ),
    _of_answer("top_score", lambda answer: answer.top_score, "number", "Best score of the memory's ranking"),
)
_SENT = (
    _of_answer("prompt_tokens", lambda answer: answer.prompt_tokens, "integer", "As sent, by the run's counter"),
    _of_answer(
        "completion_tokens", lambda answer: answer.usage.completion_tokens, "integer", "As the model reports them"
    ),
    _of_answer("cost_usd", _cost, "number", "US dollars of the answer; nothing: not known"),
    _of_answer("latency_ms", lambda answer: answer.latency_ms, "number", "Time in model calls"),
    _of_answer("recall_ms", lambda answer: answer.recall_ms, "number", "Time until the memory had recalled"),
)
_ERROR = _of_answer("error", lambda answer: answer.error, "text", "Why there is no answer")
