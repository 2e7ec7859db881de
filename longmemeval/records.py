"""The records that cross rooms. All are frozen; none but `Gold` says anything about the right answer."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field

Role = Literal["user", "assistant"]


class Turn(Struct, frozen=True):
    """One utterance of a session, as the data has it."""

    role: Role
    content: str
    speaker: str = ""
    """The speaker's name where the benchmark has one; empty otherwise."""
    caption: str | None = None
    """Text that stands for a shared picture."""


class Session(Struct, frozen=True):
    """One chat session. `date` is naive and is never converted."""

    session_id: str
    date: datetime
    date_text: str
    turns: tuple[Turn, ...]


class Haystack(Struct, frozen=True):
    """The whole history one or more questions are asked about; sessions in time order, ties in file order."""

    haystack_id: str
    sessions: tuple[Session, ...]


class Question(Struct, frozen=True):
    """All that a memory system and an answering model may know of a question."""

    question_id: str
    text: str
    date: datetime
    date_text: str
    haystack_id: str
    appended: str = ""
    """What the benchmark's own protocol adds to the question in the prompt: hints and options, say."""
    options: tuple[str, ...] = ()
    """The answers that `appended` offers, in the order shown; empty where none are."""


class Gold(Struct, frozen=True):
    """The right answer and where it is. Read only by grading, measures, stratified sampling and `oracle`."""

    question_id: str
    question_type: str
    answer: str | int
    evidence_sessions: tuple[str, ...]
    evidence_turns: tuple[str, ...]
    """Message ids (`session_id:index`) of the turns labelled as evidence."""
    abstention: bool
    trap: str | None = None
    """The wrong answer an adversarial question fishes for, where the benchmark has such questions."""
    evidence_raw: tuple[str, ...] = ()
    """The evidence strings as the data has them, faults and repeats included, where `evidence_turns` are repaired."""
    evidence_texts: tuple[str, ...] = ()
    """The evidence messages word for word, where the data labels evidence by its text."""
    facets: dict[str, int] = {}
    """What the benchmark groups its questions by beside the type, such as the number of evidence messages."""


class Message(Struct, frozen=True, gc=False, rename={"message_id": "id"}):
    """A stored turn. `message_id` is `thread_id:index`, index from 0 within the session."""

    message_id: str
    thread_id: str
    role: Role
    speaker: str
    content: str
    created_at: datetime
    index: int


Provenance = Literal["message", "session", "none"]
ItemKind = Literal["message", "fact", "summary", "working-memory"]


class RecalledItem(Struct, frozen=True, gc=False):
    """One piece of what a memory system returned, with where it came from."""

    kind: ItemKind
    text: str
    date: datetime | None
    """When it was said (messages) or last changed (documents); naive."""
    speaker: str = ""
    message_ids: tuple[str, ...] = ()
    """The stored messages this item repeats or was made from. Every system is scored on these."""
    thread_ids: tuple[str, ...] = ()
    rank: int | None = None
    """1 for the best hit; None for what came along unranked (neighbours, recent messages)."""
    score: float | None = None


class Recall(Struct, frozen=True):
    """What a memory system returned for one question, items in the order the reader shows them."""

    items: tuple[RecalledItem, ...]
    tokens: int = 0
    """Tokens of all item texts, counted with the run's token counter."""
    milliseconds: float = 0.0
    notes: tuple[str, ...] = ()
    """What was cut or could not be done, and why."""
    left_out_ids: tuple[str, ...] = ()
    """Messages that were found but had no room in a budget."""
    provenance: Provenance | None = "message"
    """The finest level on which every item says where it is from; None where there are no items."""
    dropped: int = 0
    """Messages that the reader left out because the prompt did not fit the model's window."""


class Usage(Struct, frozen=True):
    """What model calls cost. Sums are made with `+`, what came since with `-`."""

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    """Calls whose price is not known: the true cost is higher than `cost_usd`."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.cached_calls + other.cached_calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost_usd + other.cost_usd,
            self.unpriced_calls + other.unpriced_calls,
        )

    def __sub__(self, earlier: "Usage") -> "Usage":
        return Usage(
            self.calls - earlier.calls,
            self.cached_calls - earlier.cached_calls,
            self.prompt_tokens - earlier.prompt_tokens,
            self.completion_tokens - earlier.completion_tokens,
            self.cost_usd - earlier.cost_usd,
            self.unpriced_calls - earlier.unpriced_calls,
        )


class Answer(Struct, frozen=True):
    """One line of `answers.jsonl`."""

    question_id: str
    hypothesis: str
    status: Literal["ok", "error"]
    recall_ids: tuple[str, ...] = ()
    """Ids of all messages that reached the prompt, in prompt order."""
    cut_ids: tuple[str, ...] = ()
    """Ids of the messages that were found but kept out of the prompt, by a budget or by the overflow policy."""
    provenance: Provenance | None = "message"
    """As of the recall. Below `message`, `recall_ids` do not tell all that was found."""
    recall_sessions: tuple[str, ...] = ()
    """Threads of what reached the prompt, where the memory says no more than those."""
    top_score: float | None = None
    """The best score of a recalled item; None where the memory gives none."""
    recall_tokens: int = 0
    prompt_tokens: int = 0
    """Tokens of all prompts as sent for the question, by the run's token counter: with `con-separate` those of the
    note-taking calls too. `usage` has what the server counted."""
    prompt_sha256: str = ""
    usage: Usage = Usage()
    attempts: int = 0
    finish_reason: str = ""
    served_model: str = ""
    """The model name the server says it used."""
    error: str = ""
    notes: tuple[str, ...] = ()
    dropped: int | None = None
    """Messages that the overflow policy left out; None: an earlier version, or another system, which did not say."""
    recall_ms: float = 0.0
    """Milliseconds of the recall itself, the first reading of the haystack's fixture included; waiting for other
    questions' recalls is not."""
    latency_ms: float | None = 0.0
    """Milliseconds from sending a request to having its reply, retries and the waits between them included; waiting
    for a place among the calls under way, recalling and counting are not. With `con-separate` that of the slowest
    note-taking call and then that of the answering call: the critical path. 0 where no call succeeded; None where it
    is not known, since the reply came in a batch."""
    loose_limits: tuple[str, ...] = ()
    """Parameters of the memory that are at or above the size of this question's history, such as `top_k`; `recall`
    where all of the history was recalled."""

    @property
    def total_ms(self) -> float | None:
        """Recall and model together; None where that is not known."""
        return None if self.latency_ms is None else self.recall_ms + self.latency_ms


class Judgement(Struct, frozen=True):
    """One line of `judgements/<judge_id>.jsonl`. A label of None means: not evaluated."""

    question_id: str
    label: bool | None
    raw: str
    judge_id: str
    prompt_sha256: str
    answer_sha256: str
    """Hash of the hypothesis that was judged."""
    served_model: str = ""
    usage: Usage = Usage()
    attempts: int = 0
    latency_ms: float | None = 0.0
    """None: not known, the reply came in a batch."""
    error: str = ""
    score: float | None = None
    """Credit between 0 and 1 where the judge gives more than right or wrong (F1); the label is then full credit."""
    votes: tuple[str, ...] = ()
    """The reply of each vote where a judge votes several times; empty for one vote, whose reply is `raw`."""
    vote_labels: tuple[bool | None, ...] = ()
    """What each of `votes` says; None where it says nothing readable."""


class DatasetIdentity(Struct, frozen=True):
    """Which data set something was made from."""

    name: str
    sha256: str


def slowest(latencies: Iterable[float | None]) -> float | None:
    """The longest of latencies; 0 where there are none, None where one is not known."""
    known = list(latencies)
    return None if None in known else max((one for one in known if one is not None), default=0.0)


def sum_latencies(latencies: Iterable[float | None]) -> float | None:
    """What latencies one after the other come to; None where one is not known."""
    known = list(latencies)
    return None if None in known else sum((one for one in known if one is not None), 0.0)


UNDATED = "undated: "
"""Begins the note of a recall with items whose date the memory does not tell."""


class PartInfo(Struct, frozen=True, omit_defaults=True):
    """One part of a fixture: the hash of its bytes and the recipe that made it."""

    sha256: str
    """Of a directory the hash of its files' names and hashes."""
    recipe: dict[str, Any]
    reproducible: bool = True
    """Whether the same input gives the same bytes again."""
    directory: bool = False
    failed: str = ""
    """Why there is nothing in it; the next `prepare` tries again."""
    incomplete: str = ""
    """What is missing in it, and why; the next `prepare` tries that again."""
    told: dict[str, Any] = {}
    """What manifests and tables say about it."""
    stored_bytes: int = 0
    """Of its file or object as it was written, compressed or not; 0: not known, as of a local directory."""

    def has_size(self, found: int) -> bool:
        """Return whether a file or object of `found` bytes may be it; the hash says whether it is."""
        return self.stored_bytes in (0, found)


class FixtureMeta(Struct, frozen=True):
    """`meta.json` of a fixture."""

    format: int
    dataset: DatasetIdentity
    haystack_id: str
    question_ids: tuple[str, ...]
    resource_id: str
    thread_ids: tuple[str, ...]
    parts: dict[str, PartInfo]
    prepared_at: str = field(default="")
