"""One row per question of a run: question and answer, and for graded runs the gold, the labels and the loss."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from longmemeval.core.tables.table import Column, Value, frame
from longmemeval.core.text.paths import without_places
from longmemeval.measures.losses import evidence_recall
from longmemeval.records import Answer, Gold, Judgement, Question
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.graded.losses import StoredSessions, losses
from longmemeval.results.run_files import RunFiles

Line = TypeVar("Line", Answer, Judgement)
Form = Literal["text", "integer", "number", "truth"]


class QuestionResult(Struct, frozen=True):
    """One question of a run with its answer, gold and judgements."""

    question: Question
    answer: Answer | None
    gold: Gold | None = None
    """The gold; None if the run is not graded."""
    ability: str = ""
    lost_at: str | None = None
    """The stage at which a wrong answer was lost (`measures/losses.py`)."""
    judgements: Mapping[str, Judgement | None] = {}
    """Judgements by judge id; None if the judge has none."""


class FrameColumn(Column[QuestionResult], frozen=True):
    """A column of the frame, with its type and meaning for readers of the file."""

    form: Form = "text"
    meaning: str = ""


def question_rows(
    run: Evaluation | RunFiles, questions: Mapping[str, Question] | None = None
) -> list[dict[str, Value]]:
    """Return the rows of a run, in the order of its questions; `question_columns` says what is in them.

    Args:
        run: a graded run, or the files of an ungraded one, whose rows hold nothing of the gold.
        questions: the questions of an ungraded run, by id.
    """
    return frame(question_columns(run), question_results(run, questions))


def question_columns(run: Evaluation | RunFiles) -> list[FrameColumn]:
    """Return the columns of a run; if it is graded, those of each judge, in the order in which the judges scored it."""
    own = run.manifest.kind == "run"
    if isinstance(run, RunFiles):
        return [*_ASKED, *_ANSWERED, *(_SENT if own else []), _ERROR]
    judges = [metrics.judge.id for metrics in run.files.metrics]
    labels = [column for judge in judges for column in _judge_columns(judge)]
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
    """Return the result of each question of a run, in order; arguments as for `question_rows`."""
    if isinstance(run, RunFiles):
        asked, answers = questions or {}, run.answers
        return [QuestionResult(question, _for_others(answers.get(name))) for name, question in asked.items()]
    stages = losses(run, StoredSessions(run.folders)).stages
    judged = {metrics.judge.id: run.files.current_judgements(metrics.judge.id) for metrics in run.files.metrics}
    return [
        QuestionResult(
            run.asked.questions[gold.question_id],
            _for_others(run.answers.get(gold.question_id)),
            gold,
            run.asked.benchmark.types.ability_of(gold),
            stages[gold.question_id],
            {judge: _for_others(judgements.get(gold.question_id)) for judge, judgements in judged.items()},
        )
        for gold in run.asked.golds()
    ]


def _for_others(line: Line | None) -> Line | None:
    """Return an answer or a judgement whose error and notes have no absolute paths."""
    if isinstance(line, Answer) and line.notes:
        line = replace(line, notes=tuple(map(without_places, line.notes)))
    return replace(line, error=without_places(line.error)) if line and line.error else line


def _judge_columns(judge: str) -> Sequence[FrameColumn]:
    def judgement_of(row: QuestionResult) -> Judgement | None:
        return row.judgements.get(judge)

    return (
        FrameColumn(
            f"label {judge}",
            lambda row: judgement.label if (judgement := judgement_of(row)) else None,
            form="truth",
            meaning="True if this judge calls the answer right; empty: not evaluated, which counts as wrong",
        ),
        FrameColumn(
            f"score {judge}",
            lambda row: judgement.score if (judgement := judgement_of(row)) else None,
            form="number",
            meaning="Credit between 0 and 1, from judges that give more than right or wrong",
        ),
    )


def _answer_column(title: str, value: Callable[[Answer], Value], form: Form, meaning: str) -> FrameColumn:
    return FrameColumn(title, lambda row: value(row.answer) if row.answer else None, form=form, meaning=meaning)


def _gold_text(gold: Gold) -> str | None:
    answer: object = gold.answer  # Another package's benchmark may know none.
    return None if answer is None else gold.answer_text


def _gold_column(title: str, value: Callable[[Gold], Value], meaning: str, form: Form = "text") -> FrameColumn:
    return FrameColumn(title, lambda row: value(row.gold) if row.gold else None, form=form, meaning=meaning)


def _cost(answer: Answer) -> float | None:
    return None if answer.usage.unpriced_calls else answer.usage.cost_usd


_ASKED = (
    FrameColumn("question_id", lambda row: row.question.question_id, meaning="Id in the dataset"),
    FrameColumn("question", lambda row: row.question.text, meaning="Text of the question"),
    FrameColumn(
        "question_date", lambda row: row.question.date_text, meaning="Date on which it is asked, as written in the data"
    ),
)
_TYPE = (
    _gold_column("question_type", lambda gold: gold.question_type, "Type by the benchmark"),
    FrameColumn("ability", lambda row: row.ability, meaning="Type in the vocabulary that all benchmarks share"),
)
_GOLD = (
    _gold_column(
        "gold",
        _gold_text,
        "The right answer; JSON text if it is not a string",
    ),
    _gold_column("unanswerable", lambda gold: gold.abstention, "True if declining is the right answer", "truth"),
)
_ANSWERED = (
    _answer_column("hypothesis", lambda answer: answer.hypothesis, "text", "The answer of the run"),
    FrameColumn(
        "status",
        lambda row: row.answer.status if row.answer else "missing",
        meaning="ok; error: the question failed; missing: no answer",
    ),
)
_LOST = FrameColumn(
    "lost_at",
    lambda row: row.lost_at,
    meaning="Stage at which a wrong answer was lost, by the official judge, else the newest; empty: not lost",
)
_RECALLED = (
    _answer_column("recalled", lambda answer: len(answer.recall_ids), "integer", "Messages that reached the prompt"),
    _answer_column(
        "cut", lambda answer: len(answer.cut_ids), "integer", "Recalled messages that did not fit the prompt"
    ),
    FrameColumn(
        "evidence_recall",
        lambda row: evidence_recall(row.gold, row.answer) if row.gold else None,
        form="number",
        meaning="Share of the labelled evidence that reached the prompt",
    ),
    _answer_column("top_score", lambda answer: answer.top_score, "number", "Best score of the memory's ranking"),
)
_SENT = (
    _answer_column(
        "prompt_tokens",
        lambda answer: answer.prompt_tokens,
        "integer",
        "Tokens of the prompts as sent, by the run's counter",
    ),
    _answer_column(
        "completion_tokens",
        lambda answer: answer.usage.completion_tokens if answer.usage.has_tokens else None,
        "integer",
        "Tokens of the replies, as the model reports them; empty: unknown",
    ),
    _answer_column("cost_usd", _cost, "number", "US dollars for the answer; empty: unknown"),
    _answer_column("latency_ms", lambda answer: answer.latency_ms, "number", "Milliseconds in model calls"),
    _answer_column(
        "recall_ms", lambda answer: answer.recall_ms, "number", "Milliseconds until the memory had recalled"
    ),
)
_ERROR = _answer_column("error", lambda answer: answer.error, "text", "Reason for a missing answer")
