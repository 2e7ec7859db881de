"""The records that the page's script reads for each question: its row in the table, and what opens below it."""

from collections.abc import Iterable

from msgspec import Struct

# Cut texts to fit a size: the longest are cut first, and every cut records how much it left out.


class Excerpt(Struct, frozen=True, array_like=True):
    """The beginning of a text, and its end if that was requested."""

    text: str
    left_out: int = 0
    """Number of characters left out; 0: the text is complete."""
    end: str = ""


def fair_limit(sizes: Iterable[int], budget: int) -> int | None:
    """Return the largest limit at which pieces of these sizes, each cut to it, fit into the budget together.

    Returns:
        None if nothing has to be cut.
    """
    ordered = sorted(sizes)
    left = budget
    for index, size in enumerate(ordered):
        share = left // (len(ordered) - index)
        if size > share:
            return share
        left -= size
    return None


def size_of(text: str) -> int:
    """Return the size of a text in the page: bytes of UTF-8."""
    return len(text.encode())


def excerpt(text: str, limit: int | None, *, end: int = 0) -> Excerpt:
    """Return the beginning of `text`, with a share of its end.

    Args:
        text: the complete text.
        limit: bytes of UTF-8 to keep; None: all.
        end: percentage of `limit` that goes to the end of the text.
    """
    if limit is None or size_of(text) <= limit:
        return Excerpt(text)
    data = text.encode()
    tail = limit * end // 100
    # Leave out characters that a cut splits.
    head_text = data[: limit - tail].decode(errors="ignore")
    tail_text = data[len(data) - tail :].decode(errors="ignore")
    return Excerpt(head_text, len(text) - len(head_text) - len(tail_text), tail_text)


class Row(Struct, frozen=True):
    """One question in the table."""

    id: str
    type: str
    text: str
    credits: tuple[float | None, ...]
    """The credit of each run; None: not evaluated."""
    stages: tuple[str | None, ...]
    """The stage at which each run lost the question; None if it did not."""


class MessageEntry(Struct, frozen=True, array_like=True):
    """A message of a haystack, stored once in the page however many runs recall it."""

    id: str
    date: str
    speaker: str
    content: Excerpt


class Listed(Struct, frozen=True, omit_defaults=True):
    """Some messages of a question."""

    shown: tuple[int, ...]
    """Indexes of entries in the table of messages."""
    more: int = 0
    """Number of messages that are not listed."""


class Verdict(Struct, frozen=True, omit_defaults=True):
    """The judgement of one judge."""

    judge: int
    """Index of the judge in `Details.judges`."""
    label: bool | None
    raw: Excerpt
    score: float | None = None
    votes: tuple[str, ...] = ()
    error: str = ""
    reasoning: str = ""
    """Reasoning before the reply; only where nothing is left out."""


class RunDetail(Struct, frozen=True, omit_defaults=True):
    """One run's work on a question."""

    hypothesis: Excerpt | None
    """The answer; None if there is none."""
    recalled: Listed
    cut: Listed
    verdicts: tuple[Verdict, ...]
    """The judgements, that of the report's judge first."""
    prompt: tuple[Excerpt, ...] = ()
    """The messages of the prompt for the answer; empty if the prompt was not stored or is left out."""
    note_prompts: int = 0
    """Number of earlier prompts that took notes; they are in `prompts.jsonl` only."""
    prompt_tokens: int = 0
    cost_usd: float | None = None
    latency_ms: float | None = 0.0
    """Milliseconds of recall and model calls together."""
    error: str = ""
    notes: tuple[str, ...] = ()
    reasoning: str = ""
    """Reasoning before the answer; only where nothing is left out."""


class QuestionDetail(Struct, frozen=True, omit_defaults=True):
    """Everything that opens below a row."""

    date: str
    asked: str
    """The text added to the question in the prompt."""
    answer: str
    unanswerable: bool
    evidence: tuple[int, ...]
    """Indexes of the messages labelled as evidence, or of the messages recalled from evidence sessions."""
    evidence_is_turns: bool
    """True if `evidence` lists labelled messages, False if it lists messages of labelled sessions."""
    evidence_sessions: tuple[str, ...]
    runs: tuple[RunDetail, ...]


class Details(Struct, frozen=True):
    """Everything below the rows."""

    judges: tuple[str, ...]
    """Ids of all judges of the runs."""
    messages: tuple[MessageEntry, ...]
    questions: tuple[QuestionDetail, ...]
    """The questions, in the order of the rows."""
