"""Gather the page of one question from the files of its runs."""

from collections.abc import Sequence

from longmemeval.core.text.figures import UNKNOWN, count, in_dollars, milliseconds
from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.people import is_person
from longmemeval.judges.template_set import judge_name
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.records import Answer, Message
from longmemeval.report.page.question_data import details
from longmemeval.report.page.question_records import RunDetail
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.storage.messages import haystack_messages
from longmemeval.view.question.differences import Stretch, differing_words
from longmemeval.view.question.evidence import Evidence, evidence_of
from longmemeval.view.question.records import Asked, Found, QuestionPage, Track

WHY_LOST: dict[str, str] = {
    "not stored": "never had the evidence: it is not in the fixture",
    "not retrieved": "did not see all of the evidence: some or all of it was not recalled",
    "retrieved but cut": "found the evidence, but it was cut before the prompt",
    "in the prompt": "had the evidence in the prompt and answered otherwise",
    "disputed": "had the evidence in the prompt, and the judges disagree on the answer",
    "no evidence label": "answered otherwise; the data name no evidence",
    "not answered": "gave no answer",
    "no provenance": "answered otherwise, and does not say what it recalled",
}
"""The reasons by stage (`measures/losses.py`), to follow the name of a run."""


def question_page(comparison: Comparison, question_id: str, walked: Sequence[str] = ()) -> QuestionPage:
    """Return the page of one question.

    Args:
        comparison: the comparison of the runs; answers are marked against those of the first run.
        question_id: one of its questions.
        walked: ids of the questions to step through, in order; if they lack this question, all questions are stepped
            through in the order of the data.

    Raises:
        HarnessError: the runs have no such question.
    """
    ids = [row.question_id for row in comparison.questions]
    if question_id not in ids:
        raise HarnessError(f"These runs have no question '{question_id}'", fix=nearest(question_id, ids))
    place, runs = ids.index(question_id), comparison.evaluations
    row, asked = comparison.questions[place], runs[0].asked
    question = asked.questions[question_id]
    gathered, _ = details([question_id], runs, full=True, prompts=False)
    (detail,) = gathered.questions
    messages = haystack_messages(asked.dataset.haystack(question.haystack_id))
    threads = list(dict.fromkeys(message.thread_id for message in messages))
    evidence = evidence_of(asked, question_id)
    differ = {other.question_id for other in comparison.questions if len(set(other.credits)) > 1}
    order = list(walked) if question_id in walked else ids
    at = order.index(question_id)
    whys = [
        why_lost(stage, run.answers.get(question_id), evidence, unanswerable=detail.unanswerable)
        for run, stage in zip(runs, row.stages, strict=True)
    ]
    hypotheses = [run.hypothesis.text if run.hypothesis else "" for run in detail.runs]
    judges = [scores.judge for run in runs for scores in run.files.metrics if not is_person(scores.judge)]
    names = {judge.id: judge_name(judge) for judge in judges}
    return QuestionPage(
        question_id=question_id,
        question_type=row.question_type,
        text=question.text,
        detail=detail,
        judges=tuple(names.get(judge_id, "") for judge_id in gathered.judges),
        credits=row.credits,
        answers=tuple(_marked(answer, hypotheses[0], own=not place) for place, answer in enumerate(hypotheses)),
        whys=tuple(whys),
        spent=tuple(map(_spent, runs, detail.runs)),
        sessions=_sessions(messages, threads, evidence),
        tracks=tuple(_track(place, run, question_id, threads, evidence) for place, run in enumerate(runs)),
        number=at + 1,
        total=len(order),
        previous=order[at - 1] if at else "",
        next=order[at + 1] if at + 1 < len(order) else "",
        next_that_differs=next((other_id for other_id in order[at + 1 :] if other_id in differ), ""),
    )


def why_lost(stage: str | None, answer: Answer | None, evidence: Evidence, *, unanswerable: bool = False) -> str:
    """Return the reason why a question was lost, to follow the name of a run; empty if it was not."""
    if stage is None:
        return ""
    if unanswerable and stage == "in the prompt":
        return "gave an answer, though the history holds none"
    if stage == "not retrieved" and answer and answer.recall_ids:
        found, there = evidence.found_in(answer.recall_ids)
        if found:
            return f"saw {found} of {there} pieces of the evidence: the rest was not recalled"
        return "never saw the evidence: none of it was recalled"
    return WHY_LOST[stage]


def _sessions(messages: Sequence[Message], threads: Sequence[str], evidence: Evidence) -> tuple[Asked, ...]:
    dates, counts = dict[str, str](), dict.fromkeys(threads, 0)
    for message in messages:
        dates.setdefault(message.thread_id, f"{message.created_at:%Y-%m-%d}")
        counts[message.thread_id] += 1
    labelled = {message.thread_id for message in messages if evidence.holds(message.message_id)}
    return tuple(Asked(dates[thread], counts[thread], thread in labelled) for thread in threads)


def _track(place: int, run: Evaluation, question_id: str, threads: Sequence[str], evidence: Evidence) -> Track:
    answer = run.answers.get(question_id)
    if answer is None or answer.provenance == "none" or run.manifest.kind != "run":
        return Track(place, {}, known=False)
    places = {thread: number for number, thread in enumerate(threads)}
    sessions: dict[int, Found] = {}

    def add(thread: str, found: Found) -> None:
        number = places.get(thread)
        if number is not None and sessions.get(number) != "evidence":
            sessions[number] = found

    for message_id in answer.cut_ids:
        add(evidence.session_of(message_id), "cut")
    for thread in answer.recall_sessions:
        add(thread, "evidence" if thread in evidence.sessions else "beside")
    for message_id in answer.recall_ids:
        add(evidence.session_of(message_id), "evidence" if evidence.holds(message_id) else "beside")
    return Track(place, sessions, known=True)


def _marked(answer: str, baseline: str, *, own: bool) -> tuple[Stretch, ...]:
    """Return an answer with marks where it differs from the baseline's; the baseline's own answer has none."""
    if not answer:
        return ()
    return (Stretch(answer),) if own or not baseline else differing_words(answer, baseline)


def _spent(run: Evaluation, detail: RunDetail) -> str:
    own = run.manifest.kind == "run"
    tokens, time = (count(detail.prompt_tokens), milliseconds(detail.latency_ms)) if own else (UNKNOWN, UNKNOWN)
    return " · ".join([f"{tokens} tokens", *([in_dollars(detail.cost_usd)] if detail.cost_usd else []), time])
