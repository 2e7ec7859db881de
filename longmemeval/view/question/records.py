"""The records behind the page of one question; every text is as in the data."""

from typing import Literal

from msgspec import Struct

from longmemeval.report.page.question_records import QuestionDetail
from longmemeval.view.question.differences import Stretch

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
