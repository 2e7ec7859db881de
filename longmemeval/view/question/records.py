"""What the page of one question shows; every text is as in the data."""

from typing import Literal

from msgspec import Struct

from longmemeval.view.question.differences import Stretch

Outcome = Literal["right", "part", "wrong", "none"]
Found = Literal["evidence", "beside", "cut"]
"""What a run has of a session: some of the evidence, messages beside it, or only messages that were then left out."""


class Asked(Struct, frozen=True):
    """A session of the history."""

    date: str
    messages: int
    evidence: bool


class Track(Struct, frozen=True):
    """What one run recalled of each session."""

    place: int
    """Of the run among those of the page."""
    sessions: dict[int, Found]
    """By place of the session; those it recalled nothing of are absent."""
    known: bool
    """False where the run does not say what it recalled."""


class Reply(Struct, frozen=True):
    """What one judge said of an answer."""

    judge: str
    outcome: Outcome
    text: str
    votes: tuple[str, ...]
    error: str
    of_page: bool
    """Whether it is the judge whose scores the page shows."""


class Card(Struct, frozen=True):
    """One run's answer."""

    run_id: str
    outcome: Outcome
    credit: str
    """The score where it is neither 0 nor 1; else empty."""
    answer: tuple[Stretch, ...]
    """Empty where there is none."""
    why_lost: str
    """Begins with a verb, as "never recalled the evidence"; empty where the question was not lost."""
    replies: tuple[Reply, ...]
    tokens: str
    cost: str
    latency: str
    error: str
    notes: tuple[str, ...]


class QuestionPage(Struct, frozen=True):
    """One question over the runs of a comparison, in their order."""

    question_id: str
    question_type: str
    text: str
    appended: str
    date: str
    haystack_id: str
    answer: str
    unanswerable: bool
    lost: tuple[str, ...]
    """Why it was lost, a sentence for each reason, of the places of the runs that it holds for."""
    lost_by: tuple[tuple[int, ...], ...]
    """Places of the runs, in step with `lost`."""
    sessions: tuple[Asked, ...]
    tracks: tuple[Track, ...]
    cards: tuple[Card, ...]
    number: int
    """From 1, among the questions."""
    total: int
    previous: str
    """Id of the question before it; empty at the beginning."""
    next: str
    next_that_differs: str
    """Id of the next question on which the runs differ; empty where none follows."""


class PromptLine(Struct, frozen=True):
    """One piece of what a memory found."""

    kind: str
    rank: int | None
    score: float | None
    date: str
    speaker: str
    text: str
    left_out: int
    """Characters of the text that are not shown."""
    evidence: bool
    cut: bool


class PromptView(Struct, frozen=True):
    """What one run put before its model."""

    total: str
    parts: tuple[tuple[str, str], ...]
    """Name and tokens of each part; empty where they cannot be told apart."""
    lines: tuple[PromptLine, ...]
    """In the order of the prompt, then what was cut."""
    more: int
    """Pieces that are not listed."""
    remark: str
    """Why ranks are not known, or what the model saw otherwise; empty where nothing has to be said."""
    texts: tuple[tuple[str, str], ...]
    """Role and text of each message as it was sent; empty where it was not kept or is too long for the page."""
    length: int
    """Characters of them, whether they are here or not."""
