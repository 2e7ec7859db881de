"""Gather the page of one question from the files of its runs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

from msgspec import Struct

from longmemeval.core.tables.table import escape_html
from longmemeval.core.text.figures import UNKNOWN, count, count_of, in_dollars, milliseconds
from longmemeval.errors import HarnessError, nearest
from longmemeval.judges.people import is_person
from longmemeval.judges.template_set import judge_name
from longmemeval.pipeline.compare.comparison import Comparison
from longmemeval.records import Answer, Message
from longmemeval.report.page.question_data import details
from longmemeval.report.page.question_records import QuestionDetail, RunDetail
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.storage.messages import haystack_messages
from longmemeval.view.question.evidence import Evidence, evidence_of

# Find the words in which an answer differs from another.

_WORD = re.compile(r"\S+\s*|^\s+")
_MOST = 4_000_000
"""The largest product of two texts' numbers of words for which they are compared: beyond it a visitor would wait."""

_ALIKE = 0.4
"""The share of common words below which two texts count as entirely different."""


class Stretch(Struct, frozen=True):
    """Some consecutive words."""

    text: str
    differs: bool = False


def differing_words(text: str, other: str) -> tuple[Stretch, ...]:
    """Return `text` in stretches, marking those that `other` does not have in the same place.

    Case and punctuation at the ends of words make no difference. If hardly any words are shared, the whole text is
    marked, as a few words in common say nothing. Texts too long to compare are returned unmarked.
    """
    words, others = _WORD.findall(text), _WORD.findall(other)
    if not words or len(words) * len(others) > _MOST:
        return (Stretch(text),)
    matcher = SequenceMatcher(None, [_bare(word) for word in others], [_bare(word) for word in words], autojunk=False)
    if matcher.ratio() < _ALIKE:
        return (Stretch(text, True),)
    pieces = [("".join(words[begin:end]), kind != "equal") for kind, _, _, begin, end in matcher.get_opcodes()]
    return tuple(Stretch(piece, differs) for piece, differs in pieces if piece)


def _bare(word: str) -> str:
    return re.sub(r"^\W+|\W+$", "", word).casefold() or word.strip()


# The records behind the page of one question; every text is as in the data.

Found = Literal["evidence", "beside", "cut"]
"""The recall from a session: some of the evidence, only other messages, or only messages that were then cut."""


class Asked(Struct, frozen=True):
    """A session of the history."""

    date: str
    messages: int
    evidence: bool


class Track(Struct, frozen=True):
    """The sessions that one run recalled from."""

    place: int
    """Index of the run among those of the page."""
    sessions: dict[int, Found]
    """The recall by index of the session; sessions from which nothing was recalled are absent."""
    known: bool
    """False if the run does not say what it recalled."""


class QuestionPage(Struct, frozen=True):
    """One question over the runs of a comparison, in their order."""

    question_id: str
    question_type: str
    text: str
    detail: QuestionDetail
    """The question and the work of each run, as in the report but with nothing left out."""
    judges: tuple[str, ...]
    """Names of the judges, by their indexes in `detail`; empty for people, whose labels are read anew."""
    credits: tuple[float | None, ...]
    answers: tuple[tuple[Stretch, ...], ...]
    """The answer of each run, marked where it differs from the first run's; empty if there is none."""
    whys: tuple[str, ...]
    """The reason why each run lost the question, to follow its name; empty if it did not."""
    spent: tuple[str, ...]
    """Tokens, dollars and time of each run for the question."""
    sessions: tuple[Asked, ...]
    tracks: tuple[Track, ...]
    number: int
    """Position among the questions, from 1."""
    total: int
    previous: str
    """Id of the previous question; empty at the beginning."""
    next: str
    next_that_differs: str
    """Id of the next question on which the runs differ; empty if none follows."""

    @property
    def lost(self) -> dict[str, list[int]]:
        """Each reason why the question was lost, with the indexes of the runs it applies to."""
        return {why: [place for place, other in enumerate(self.whys) if other == why] for why in self.whys if why}


class PromptLine(Struct, frozen=True):
    """One piece of a memory's recall."""

    kind: str
    rank: int | None
    score: float | None
    date: str
    speaker: str
    text: str
    left_out: int
    """Number of characters of the text that are not shown."""
    evidence: bool
    cut: bool
    missed: bool = False
    """True for evidence that was not recalled."""


class PromptView(Struct, frozen=True):
    """The prompt that one run sent to its model."""

    total: str
    parts: tuple[tuple[str, str], ...]
    """Name and tokens of each part; empty if the parts cannot be told apart."""
    lines: tuple[PromptLine, ...]
    """The listed pieces: evidence that was not recalled, those in the prompt, and those that were cut."""
    more: int
    """Number of pieces that are not listed."""
    remark: str
    """The reason why ranks are unknown, or why there is no prompt; empty if there is nothing to say."""
    texts: tuple[tuple[str, str], ...]
    """Role and text of each message as sent; empty if the prompt was not stored or is too long for the page."""
    length: int
    """Number of characters in the prompt, whether `texts` contains it or not."""


WHY_LOST: dict[str, str] = {
    "not stored": "never had the evidence: it is not in the fixture",
    "not retrieved": "did not see all of the evidence: some or all of it was not retrieved",
    "retrieved but cut": "found the evidence, but it was cut before the prompt",
    "lost at reflection": "had observed the evidence, and lost it when the log was condensed",
    "in the prompt": "had the evidence in the prompt and answered otherwise",
    "disputed": "had the evidence in the prompt, and the judges disagree on the answer",
    "no evidence label": "answered otherwise; the data name no evidence",
    "not answered": "gave no answer",
    "no provenance": "answered otherwise, and does not name its sources",
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
            return f"saw {found} of {there} pieces of the evidence: the rest was not retrieved"
        return "never saw the evidence: none of it was retrieved"
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


# Draw strips of cells: the sessions that hold the evidence, and those that each run recalled from.

_CELL, _GAP = 10, 1.2
_MOST_TITLES = 150
"""The most sessions for which each cell has a tooltip; in longer histories, equal cells in a row are merged."""
_MOST_DATES = 5


def history_strip(sessions: Sequence[Asked]) -> str:
    """Return the strip of the history as an `svg` element that fills its container."""
    labelled = sum(session.evidence for session in sessions)
    label = f"The history: {count_of(len(sessions), 'session')}, {labelled} with evidence"
    cells = {place: "evidence" if session.evidence else "session" for place, session in enumerate(sessions)}
    return _strip(cells, sessions, label, "history")


def track_strip(track: Track, sessions: Sequence[Asked], name: str, colour: int) -> str:
    """Return the strip of one run.

    Args:
        track: the sessions that the run recalled from.
        sessions: the sessions of the history.
        name: display name of the run.
        colour: number in the CSS class of the run's colour.
    """
    return _strip(track.sessions, sessions, f"{name} {in_words(track, sessions)}", f"run-{colour}")


def in_words(track: Track, sessions: Sequence[Asked]) -> str:
    """Describe a strip for readers who cannot see it; the text follows the name of the run."""
    if not track.known:
        return "does not say what it recalled"
    labelled = [place for place, session in enumerate(sessions) if session.evidence]
    seen = sum(track.sessions.get(place) == "evidence" for place in labelled)
    recalled = sum(state != "cut" for state in track.sessions.values())
    words = f"recalled from {recalled} of {count_of(len(sessions), 'session')}"
    return f"{words}, {seen} of {len(labelled)} with evidence" if labelled else words


def dates_below(sessions: Sequence[Asked]) -> list[str]:
    """Return a few dates at equal distances, including the first and the last."""
    last = len(sessions) - 1
    if last < 0:
        return []
    steps = min(_MOST_DATES, len(sessions))
    places = [round(last * step / max(1, steps - 1)) for step in range(steps)]
    return [sessions[place].date for place in places]


def _strip(cells: Mapping[int, str] | Mapping[int, Found], sessions: Sequence[Asked], label: str, kind: str) -> str:
    marks = _titled(cells, sessions) if len(sessions) <= _MOST_TITLES else _merged(cells)
    width = max(1, len(sessions)) * _CELL
    return (
        f'<svg class="strip {kind}" viewBox="0 0 {width} 10" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape_html(label)}">{"".join(marks)}</svg>'
    )


def _titled(cells: Mapping[int, str], sessions: Sequence[Asked]) -> Iterator[str]:
    states = {"evidence": "evidence", "beside": "recalled", "cut": "found, then cut", "session": "no evidence"}
    for place, found in sorted(cells.items()):
        session = sessions[place]
        words = f"{session.date}, {count_of(session.messages, 'message')}: {states[found]}"
        yield _cell(place, place + 1, found, f"<title>{escape_html(words)}</title>")


def _merged(cells: Mapping[int, str]) -> Iterator[str]:
    """Yield one mark for each row of equal cells."""
    ordered = enumerate(sorted(cells.items()))
    for (_, found), group in groupby(ordered, key=lambda item: (item[1][0] - item[0], item[1][1])):
        places = [place for _, (place, _) in group]
        yield _cell(places[0], places[-1] + 1, found, "")


def _cell(begin: int, end: int, found: str, title: str) -> str:
    width = (end - begin) * _CELL - _GAP
    mark = f'class="{found}" x="{begin * _CELL}" y="0" width="{width:g}" height="10"'
    return f"<rect {mark}>{title}</rect>" if title else f"<rect {mark}/>"
