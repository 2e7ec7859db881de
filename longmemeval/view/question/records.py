"""What the page of one question shows; every text is as in the data."""

from typing import Literal

from msgspec import Struct

from longmemeval.report.page.question_records import QuestionDetail
from longmemeval.view.question.differences import Stretch

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


class QuestionPage(Struct, frozen=True):
    """One question over the runs of a comparison, in their order."""

    question_id: str
    question_type: str
    text: str
    detail: QuestionDetail
    """What was asked and what each run did, as the report has it, nothing left out."""
    judges: tuple[str, ...]
    """Names of the judges by their numbers in `detail`; empty for people, whose labels are read anew."""
    credits: tuple[float | None, ...]
    answers: tuple[tuple[Stretch, ...], ...]
    """Of each run, marked where it differs from the first one's; empty where there is none."""
    whys: tuple[str, ...]
    """Why each run lost it, to follow its name; empty where it did not."""
    spent: tuple[str, ...]
    """Tokens, dollars and time of each run."""
    sessions: tuple[Asked, ...]
    tracks: tuple[Track, ...]
    number: int
    """From 1, among the questions."""
    total: int
    previous: str
    """Id of the question before it; empty at the beginning."""
    next: str
    next_that_differs: str
    """Id of the next question on which the runs differ; empty where none follows."""

    @property
    def lost(self) -> dict[str, list[int]]:
        """Each reason why it was lost, with the places of the runs that it holds for."""
        return {why: [place for place, one in enumerate(self.whys) if one == why] for why in self.whys if why}


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
