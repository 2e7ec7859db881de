"""Records shared between packages. All are frozen; none but `Gold` reveals anything about the right answer."""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import reduce
from math import ceil
from operator import add, sub
from typing import Any, Literal, Protocol

from msgspec import UNSET, Struct, UnsetType, field, json
from msgspec.structs import astuple

Role = Literal["user", "assistant"]
RightAnswer = str | int | float | bool | list[Any] | dict[str, Any]
"""A right answer: any JSON value but null, since that is not one."""


class Turn(Struct, frozen=True, gc=False):
    """One utterance of a session, as in the data."""

    role: Role
    content: str
    speaker: str = ""
    """Name of the speaker if the benchmark has one; otherwise empty."""
    caption: str | None = None
    """Text that stands for a shared picture."""


class Session(Struct, frozen=True):
    """One chat session. `date` is naive and is never converted."""

    session_id: str
    date: datetime
    date_text: str
    turns: tuple[Turn, ...]


class Haystack(Struct, frozen=True):
    """The whole history that one or more questions are about.

    Sessions are in time order, ties in file order.
    """

    haystack_id: str
    sessions: tuple[Session, ...]


class Question(Struct, frozen=True):
    """Everything that a memory system and an answering model may know about a question."""

    question_id: str
    text: str
    date: datetime
    date_text: str
    haystack_id: str
    appended: str = ""
    """Text that the benchmark's own protocol adds to the question in the prompt, such as hints and options."""
    options: tuple[str, ...] = ()
    """Answers offered by `appended`, in the order shown; empty if there are none."""


class Gold(Struct, frozen=True):
    """The right answer and its evidence. Read only by grading, measures, stratified sampling and `oracle`."""

    question_id: str
    question_type: str
    answer: RightAnswer
    evidence_sessions: tuple[str, ...]
    evidence_turns: tuple[str, ...]
    """Message ids (`session_id:index`) of the turns labelled as evidence."""
    abstention: bool
    trap: str | None = None
    """Wrong answer that an adversarial question aims at, if the benchmark has such questions."""
    evidence_raw: tuple[str, ...] = ()
    """Evidence strings as in the data, with faults and repeats, if `evidence_turns` are repaired."""
    evidence_texts: tuple[str, ...] = ()
    """Evidence messages word for word, if the data labels evidence by its text."""
    facets: dict[str, int] = {}
    """Properties the benchmark groups its questions by besides the type, such as the number of evidence messages."""

    @property
    def answer_text(self) -> str:
        """The right answer as people and tables see it: a text as it is, anything else as JSON."""
        return self.answer if isinstance(self.answer, str) else json.encode(self.answer).decode()


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
    """One piece of a memory system's result, with its provenance."""

    kind: ItemKind
    text: str
    date: datetime | None
    """Date of a message, or of a document's last change; naive."""
    speaker: str = ""
    message_ids: tuple[str, ...] = ()
    """Stored messages this item repeats or was made from. Every system is scored on these."""
    thread_ids: tuple[str, ...] = ()
    rank: int | None = None
    """1 for the best hit; None for unranked additions (neighbours, recent messages)."""
    score: float | None = None


class Recall(Struct, frozen=True):
    """The result of a memory system for one question, items in the order the reader shows them."""

    items: tuple[RecalledItem, ...]
    tokens: int = 0
    """Tokens of all item texts, counted with the run's token counter."""
    milliseconds: float = 0.0
    notes: tuple[str, ...] = ()
    """Cut or failed parts, with the reason."""
    left_out_ids: tuple[str, ...] = ()
    """Messages that were found but did not fit a budget."""
    provenance: Provenance | None = "message"
    """Finest level at which every item states its origin; None if there are no items."""
    dropped: int = 0
    """Messages that the reader left out because the prompt did not fit the model's window."""
    forgotten_ids: tuple[str, ...] = ()
    """Messages that the memory once knew of, and has lost while it condensed what it knew."""


class Usage(Struct, frozen=True, gc=False):
    """Tokens and cost of model calls: what was paid, wherever it is recorded.

    The line that holds it says what for: a question's answer or judgement, a haystack's parts, a receipt in a cache.
    Supports `+` (sum) and `-` (difference to an earlier total).
    """

    calls: int = 0
    cached_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    """Calls whose price is not known: the true cost is higher than `cost_usd`."""
    estimated_calls: int | UnsetType = UNSET
    """Calls whose tokens the server did not count, or only in part: the rest is our own count. Absent if none."""

    def __add__(self, other: "Usage") -> "Usage":
        return _combined(add, (self, other))

    def __sub__(self, earlier: "Usage") -> "Usage":
        return _combined(sub, (self, earlier))

    @classmethod
    def of_call(cls, prompt_tokens: int, completion_tokens: int, dollars: float | None) -> "Usage":
        """Return the usage of one call; `dollars` is None if its price is unknown.

        Negative figures of a server are unknown ones: no tokens are counted, and the price is not known.
        """
        if min(prompt_tokens, completion_tokens, dollars or 0.0) < 0:
            prompt_tokens, completion_tokens, dollars = max(prompt_tokens, 0), max(completion_tokens, 0), None
        return cls(1, 0, prompt_tokens, completion_tokens, dollars or 0.0, int(dollars is None))

    @property
    def has_tokens(self) -> bool:
        """False if the model reported no tokens, as a program; they are unknown then, not 0."""
        return not self.unpriced_calls or self.prompt_tokens + self.completion_tokens > 0

    @property
    def dollars(self) -> float | None:
        """US dollars; None unless the price of every call is known."""
        return None if self.unpriced_calls else self.cost_usd

    def from_cache(self, calls: int = 1) -> "Usage":
        """Return the usage of the same reply from a cache: counted, but free."""
        return Usage(calls, calls, self.prompt_tokens, self.completion_tokens, estimated_calls=self.estimated_calls)

    def share(self, part: int, whole: int) -> "Usage":
        """Return `part / whole` of this usage; calls are rounded up."""
        share = part / whole if part else 0.0
        calls, cached, prompt, completion, _, unpriced, estimated = (share * (amount or 0) for amount in astuple(self))
        tokens = round(prompt), round(completion)
        dollars = self.cost_usd * share
        return Usage(ceil(calls), ceil(cached), *tokens, dollars, ceil(unpriced), ceil(estimated) or UNSET)


def _combined(operation: Callable[[Any, Any], Any], usages: Iterable[Usage]) -> Usage:
    """Return a usage whose fields are those of several, combined one by one."""
    # Not `sum`: versions of Python differ in how it adds floats.
    rows = ([figure or 0 for figure in astuple(usage)] for usage in usages)
    sums = (reduce(operation, column) for column in zip(*rows, strict=False))
    found: dict[str, Any] = dict(zip(Usage.__struct_fields__, sums, strict=False))
    return Usage(**found | {"estimated_calls": found["estimated_calls"] or UNSET})


class Asked(Struct, frozen=True, omit_defaults=True, gc=False):
    """What a call sent besides what its settings say, and what the model spent before its visible reply."""

    max_tokens: int = 0
    """The limit that was sent, if there was room for reasoning in it; 0: that of the visible reply."""
    reasoning_tokens: int = 0
    """Tokens of reasoning, by the server's count; they are among the completion tokens."""
    deviations: tuple[str, ...] = ()
    """What the server refused, and was sent otherwise or not at all."""


class _Asking(Protocol):
    @property
    def asked(self) -> Asked | UnsetType: ...


def asked_of(calls: Iterable[_Asking]) -> Asked | UnsetType:
    """Return how several calls were asked, together: the widest limit, all reasoning, every deviation once."""
    found = [call.asked for call in calls if call.asked]
    if not found:
        return UNSET
    deviations = dict.fromkeys(note for asked in found for note in asked.deviations)
    limit, reasoned = max(asked.max_tokens for asked in found), sum(asked.reasoning_tokens for asked in found)
    return Asked(limit, reasoned, tuple(deviations))


class _Paid(Protocol):
    @property
    def usage(self) -> Usage: ...


def usage_of(paid: Iterable[_Paid]) -> Usage:
    """Return the usage of several records, replies or models together."""
    nothing = Usage()
    counted = [usage for record in paid if (usage := record.usage) != nothing]
    return _combined(add, counted) if counted else nothing


class ToolStep(Struct, frozen=True):
    """One call of a tool by the answering model."""

    tool: str
    arguments: str
    """JSON as the model wrote it."""
    outcome: str
    """Outcome of the call in a few words."""
    message_ids: tuple[str, ...] = ()
    """Messages that the call showed in full."""


class Answer(Struct, frozen=True, gc=False):
    """One line of `answers.jsonl`."""

    question_id: str
    hypothesis: str
    status: Literal["ok", "error"]
    recall_ids: tuple[str, ...] = ()
    """Ids of all messages that reached the prompt, in prompt order."""
    cut_ids: tuple[str, ...] = ()
    """Ids of messages that were found but kept out of the prompt, by a budget or by the overflow policy."""
    provenance: Provenance | None = "message"
    """Provenance of the recall. Below `message`, `recall_ids` do not list everything found."""
    recall_sessions: tuple[str, ...] = ()
    """Threads of the items that reached the prompt, if the memory gives only those."""
    top_score: float | None = None
    """Best score of a recalled item; None if the memory gives none."""
    recall_tokens: int = 0
    prompt_tokens: int = 0
    """Tokens of all prompts as sent for the question, by the run's token counter, with `con-separate` including
    those of the note-taking calls. `usage` has the server's counts."""
    prompt_sha256: str = ""
    usage: Usage = Usage()
    attempts: int = 0
    finish_reason: str = ""
    served_model: str = ""
    """Model name reported by the server."""
    error: str = ""
    notes: tuple[str, ...] = ()
    dropped: int | None = None
    """Messages that the overflow policy left out; None: unknown, from another system."""
    recall_ms: float = 0.0
    """Milliseconds of the recall itself, including the first reading of the haystack's fixture, but not waiting for
    other questions' recalls."""
    latency_ms: float | None = 0.0
    """Milliseconds from sending a request to having its reply, including retries and the waits between them, but not
    waiting for a free slot, recalling and counting. With `con-separate` that of the slowest note-taking call plus that
    of the answering call: the critical path. 0 if no call succeeded; None if it is not known, as for a reply in a
    batch."""
    loose_limits: tuple[str, ...] = ()
    """Parameters of the memory that are at least the size of this question's history, such as `top_k`; `recall` if the
    whole history was recalled."""
    tool_steps: tuple[ToolStep, ...] | UnsetType = field(default=UNSET, name="steps")
    """`steps` as in the file; absent if the reading has no tools."""
    shown_reasoning: str | UnsetType = field(default=UNSET, name="reasoning")
    """`reasoning` as in the file; absent if the model shows none, and in files of earlier versions."""

    @property
    def reasoning(self) -> str:
        """Reasoning that the model wrote before its answer or sent apart; never judged."""
        return self.shown_reasoning or ""

    asked: Asked | UnsetType = UNSET
    """How the calls were asked; absent if as the settings say."""
    forgotten_ids: tuple[str, ...] | UnsetType = UNSET
    """Ids of messages that the memory lost while it condensed what it knew; absent if there are none."""

    @property
    def steps(self) -> tuple[ToolStep, ...]:
        """Tool calls of the model, in order; empty if the reading has no tools."""
        return self.tool_steps or ()

    @property
    def total_ms(self) -> float | None:
        """Milliseconds of recall and model together; None if unknown."""
        return None if self.latency_ms is None else self.recall_ms + self.latency_ms


class Judgement(Struct, frozen=True, gc=False):
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
    """Milliseconds of the judge's calls; None if unknown, as for a reply in a batch."""
    error: str = ""
    score: float | None = None
    """Credit between 0 and 1 if the judge gives more than right or wrong (F1); the label is then full credit."""
    votes: tuple[str, ...] = ()
    """Reply of each vote if a judge votes several times; empty for one vote, whose reply is `raw`."""
    vote_labels: tuple[bool | None, ...] = ()
    """Label of each of `votes`; None if it is unreadable."""
    shown_reasoning: str | UnsetType = field(default=UNSET, name="reasoning")
    """`reasoning` as in the file; absent if the judge shows none, and in files of earlier versions."""

    @property
    def reasoning(self) -> str:
        """Reasoning that the judge wrote before its reply or sent apart; no verdict is read in it."""
        return self.shown_reasoning or ""

    asked: Asked | UnsetType = UNSET
    """How the judge was asked; absent if as its identity says."""
    cut: str | UnsetType = UNSET
    """Finish reason of a reply that broke off; absent if it is whole."""


class DatasetIdentity(Struct, frozen=True):
    """Identity of the dataset something was made from."""

    name: str
    sha256: str


def slowest(latencies: Iterable[float | None]) -> float | None:
    """Return the longest latency; 0 if there are none, None if one is unknown."""
    known = list(latencies)
    return None if None in known else max((latency for latency in known if latency is not None), default=0.0)


def sum_latencies(latencies: Iterable[float | None]) -> float | None:
    """Return the sum of consecutive latencies; None if one is unknown."""
    known = list(latencies)
    return None if None in known else sum((latency for latency in known if latency is not None), 0.0)


UNDATED = "undated: "
"""Prefix of the note on recalled items whose date the memory does not give."""
TRUNCATED = "the server may have truncated the prompt: "
"""Prefix of the deviation of a call whose prompt has far fewer tokens by the server's count than by ours."""


class PartInfo(Struct, frozen=True, omit_defaults=True):
    """One part of a fixture: the hash of its bytes and the recipe that made it."""

    sha256: str
    """Hash of the part; for a directory, of its files' names and hashes."""
    recipe: dict[str, Any]
    reproducible: bool = True
    """True if the same input gives the same bytes again."""
    directory: bool = False
    failed: str = ""
    """Reason why it is empty; the next `prepare` tries again."""
    incomplete: str = ""
    """Missing content, and why; the next `prepare` tries that again."""
    stats: dict[str, Any] = field(default_factory=dict, name="told")
    """Figures for manifests and tables."""
    stored_bytes: int = 0
    """Bytes of its file or object as written, compressed or not; 0: unknown, as for a local directory."""
    replaces: str = ""
    """Hash of the part of an earlier version that it has replaced, which runs may have read; empty: of none."""

    def has_size(self, size: int) -> bool:
        """Return whether a file or object of `size` bytes may be this part; only the hash is certain."""
        return self.stored_bytes in (0, size)


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
