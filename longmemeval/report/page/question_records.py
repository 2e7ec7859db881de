"""What the page's script reads of each question: the row of the table, and everything that opens below it."""

from msgspec import Struct

from longmemeval.report.page.shorten import Excerpt


class Row(Struct, frozen=True):
    """One question in the table."""

    id: str
    type: str
    text: str
    credits: tuple[float | None, ...]
    """Of each run; None: not evaluated."""
    stages: tuple[str | None, ...]
    """Where each run lost it; None where it did not."""


class MessageEntry(Struct, frozen=True, array_like=True):
    """A message of a haystack, once in the page, however many runs recall it."""

    id: str
    date: str
    speaker: str
    content: Excerpt


class Listed(Struct, frozen=True, omit_defaults=True):
    """Some messages of a question."""

    shown: tuple[int, ...]
    """Numbers of entries in the table of messages."""
    more: int = 0
    """Messages that are not listed."""


class Verdict(Struct, frozen=True, omit_defaults=True):
    """The judgement of one judge."""

    judge: int
    """Number of the judge among those of the page."""
    label: bool | None
    raw: Excerpt
    score: float | None = None
    votes: tuple[str, ...] = ()
    error: str = ""


class RunDetail(Struct, frozen=True, omit_defaults=True):
    """One run's work on a question."""

    hypothesis: Excerpt | None
    """None where there is no answer."""
    recalled: Listed
    cut: Listed
    verdicts: tuple[Verdict, ...]
    """Of the judge of this report first."""
    prompt: tuple[Excerpt, ...] = ()
    """The messages of the prompt that asked for the answer; none where it was not stored or is left out."""
    note_prompts: int = 0
    """Prompts before it, which are in `prompts.jsonl` only."""
    prompt_tokens: int = 0
    cost_usd: float | None = None
    latency_ms: float | None = 0.0
    """Recall and model calls."""
    error: str = ""
    notes: tuple[str, ...] = ()


class QuestionDetail(Struct, frozen=True, omit_defaults=True):
    """All that opens below a row."""

    date: str
    asked: str
    """What was added to the question in the prompt."""
    answer: str
    unanswerable: bool
    evidence: tuple[int, ...]
    """Entries of the messages labelled as evidence, or of those recalled from an evidence session."""
    evidence_is_turns: bool
    """Which of the two."""
    evidence_sessions: tuple[str, ...]
    runs: tuple[RunDetail, ...]


class Details(Struct, frozen=True):
    """Everything below the rows."""

    judges: tuple[str, ...]
    """Ids of all judges of the runs."""
    messages: tuple[MessageEntry, ...]
    questions: tuple[QuestionDetail, ...]
    """In the order of the rows."""
