"""The messages of the memory protocol, version 1. `docs/memory-protocol.schema.json` is generated from these records.

A client asks, a memory service answers. The envelope belongs to the transport: a child process reads `Request` lines
and writes `Response` and `Notification` lines; over HTTP the parameters are the body of `POST /v1/<method>`.
Dates have no time zone. Ids are opaque; they tell nothing and belong to one scope.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

PROTOCOL = 1

NaiveDate = Annotated[
    datetime,
    Meta(
        tz=False,
        description="ISO 8601 without a time zone: 2023-05-20T10:00:00.",
        extra_json_schema={"pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?$"},
    ),
]
Method = Literal["hello", "open", "add", "ready", "search", "snapshot", "list", "reset", "shutdown"]


class _Sent(Struct, frozen=True, forbid_unknown_fields=True):
    """What the client sends holds these fields and no others."""


class _Replied(Struct, frozen=True, omit_defaults=True):
    """What a service replies may hold more; the client passes over what it does not know."""


class Hello(_Sent, frozen=True):
    """Who asks, and by which version of the protocol."""

    protocol: int = PROTOCOL


class Capabilities(_Replied, frozen=True):
    """What a service can do; decides what the client asks of it and what tables can show."""

    dates: Literal["native", "text", "none"] = "none"
    """Dates of sessions are kept as dates, reach the memory inside of texts only, or are lost."""
    provenance: Literal["message", "session", "none"] = "none"
    """What a search item can say about where it is from."""
    unit: Literal["session", "pair", "turn"] = "session"
    """What one `add` takes: a whole session, a user message with what follows it, or one message."""
    persist: Literal["directory", "service", "none"] = "none"
    """Where an ingested scope stays: in its directory, at the service under a reference, or nowhere."""
    max_parallel: Annotated[int, Meta(ge=1)] = 1
    """How many scopes can be worked on at once."""
    list: bool = False
    """Whether `list` is there."""
    signals: tuple[str, ...] = ()
    """What a search goes by, such as `vectors`, `words`, `graph`; only what is active."""
    telemetry: Literal["off", "on", "unknown"] = "unknown"
    """Whether the product sends usage data to its maker."""
    models: Literal["none", "offered", "own", "unknown"] = "unknown"
    """Which models it calls: none, those at the addresses in `open` alone, or others, whose cost nobody counts."""


class HelloResult(_Replied, frozen=True):
    """Who answers."""

    protocol: int
    name: str
    packages: dict[str, str] = {}
    """Versions of what the results depend on, by package."""
    capabilities: Capabilities = Capabilities()


class Open(_Sent, frozen=True):
    """Make a scope ready: to be filled (`prepare`), going on with what is there, or to be searched (`read`)."""

    scope: str
    """One history, apart from all others."""
    directory: str
    """A folder of the scope's own, to write to; empty for services that keep their state themselves."""
    mode: Literal["prepare", "read"]
    configuration: dict[str, Any] = {}
    """What the user has set."""
    reference: str = ""
    """What `snapshot` returned; in mode `read`, and where batches that failed are tried again."""
    chat_base_url: str = ""
    """Where the system is to call chat models, by the OpenAI API; ends in `/v1`. Empty: as it is configured itself."""
    chat_model: str = ""
    """The model that answers there, whatever name is asked for."""
    embedding_base_url: str = ""
    """The same for embeddings."""
    embedding_model: str = ""
    embedding_dimension: Annotated[int, Meta(ge=0)] = 0
    """How long its vectors are; 0: not known."""


class OpenResult(_Replied, frozen=True):
    """What is there already."""

    batch_ids: tuple[str, ...] = ()
    """Batches that are kept from an earlier attempt; they are not sent again."""


class SentMessage(_Sent, frozen=True):
    """One message of a session."""

    id: str
    role: Literal["user", "assistant"]
    speaker: str
    """The speaker's name; empty where the data has none."""
    content: str


class SentSession(_Sent, frozen=True):
    """A session or, by the unit of the service, a stretch of one."""

    id: str
    date: NaiveDate
    messages: tuple[SentMessage, ...]


class Add(_Sent, frozen=True):
    """Add a session. A batch id that was added before changes nothing."""

    scope: str
    batch_id: str
    session: SentSession


class ReportedUsage(_Replied, frozen=True):
    """What a service says that its own model calls took."""

    calls: Annotated[int, Meta(ge=0)] = 0
    prompt_tokens: Annotated[int, Meta(ge=0)] = 0
    completion_tokens: Annotated[int, Meta(ge=0)] = 0


class AddResult(_Replied, frozen=True):
    """What became of a batch."""

    refs: dict[str, tuple[str, ...]] = {}
    """Names the service gave to what it stored, each with the ids of the messages it was made from."""
    usage: ReportedUsage | None = None


class Ready(_Sent, frozen=True):
    """Ask whether all that was added can be found."""

    scope: str


class FailedBatch(_Replied, frozen=True):
    """A batch that cannot be found, and why."""

    batch_id: str
    error: str = ""


class ReadyResult(_Replied, frozen=True):
    """How far the service has come. `failed` is final; `pending` is asked about again."""

    state: Literal["ready", "pending", "failed"]
    done: Annotated[int, Meta(ge=0)] = 0
    """Batches that can be found."""
    pending: Annotated[int, Meta(ge=0)] = 0
    failed: tuple[FailedBatch, ...] = ()


class Search(_Sent, frozen=True):
    """Search a scope."""

    scope: str
    query: str
    as_of: NaiveDate
    """When the question is asked."""
    limit: Annotated[int, Meta(ge=1)]
    """Most items to return."""
    token_budget: int | None = None
    """Most tokens to return, for services that work by that."""


class SearchItem(_Replied, frozen=True):
    """One thing that was found, best first."""

    text: str
    kind: Literal["message", "fact", "summary"] = "message"
    ref: str = ""
    """A name given in the result of an `add`; says what it was made from."""
    date: datetime | None = None
    """When it was said or became true; no time zone, or UTC where the service took the dates for that."""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    speaker: str = ""
    message_ids: tuple[str, ...] = ()
    session_ids: tuple[str, ...] = ()
    score: float | None = None


class SearchResult(_Replied, frozen=True):
    """What was found."""

    items: tuple[SearchItem, ...]
    truncated: bool = False
    """Whether more was found than is returned."""
    usage: ReportedUsage | None = None


class Snapshot(_Sent, frozen=True):
    """Write everything to the directory and close the scope."""

    scope: str


class SnapshotResult(_Replied, frozen=True):
    """Where the scope is kept."""

    reference: str = ""
    """The scope's name at the service; empty where all is in the directory."""


class List(_Sent, frozen=True):
    """Show all that a scope holds."""

    scope: str


class ListResult(_Replied, frozen=True):
    """All that a scope holds."""

    items: tuple[SearchItem, ...]


class Reset(_Sent, frozen=True):
    """Empty a scope."""

    scope: str


class ResetResult(_Replied, frozen=True):
    """The scope is empty."""


class Shutdown(_Sent, frozen=True):
    """Close everything; a child process ends."""


class ShutdownResult(_Replied, frozen=True):
    """Everything is closed."""


class Fault(_Replied, frozen=True):
    """Why a method failed."""

    code: str
    message: str
    retryable: bool = False
    """Whether the same call may succeed a little later."""


class Request(_Sent, frozen=True):
    """A line to a child process."""

    id: int
    method: Method
    params: dict[str, Any]


class Response(Struct, frozen=True):
    """A line from a child process: the result, or the error, of the request with this id."""

    id: int
    result: dict[str, Any] | None = None
    error: Fault | None = None


class Progress(_Replied, frozen=True):
    """How far a long call has come; while `done` grows, its time does not run out."""

    scope: str
    done: Annotated[int, Meta(ge=0)]
    total: Annotated[int, Meta(ge=0)] = 0


class Notification(Struct, frozen=True):
    """A line from a child process that answers nothing."""

    method: Literal["progress"]
    params: Progress


PARAMETERS: dict[str, type[Struct]] = {
    "hello": Hello,
    "open": Open,
    "add": Add,
    "ready": Ready,
    "search": Search,
    "snapshot": Snapshot,
    "list": List,
    "reset": Reset,
    "shutdown": Shutdown,
}
RESULTS: dict[str, type[Struct]] = {
    "hello": HelloResult,
    "open": OpenResult,
    "add": AddResult,
    "ready": ReadyResult,
    "search": SearchResult,
    "snapshot": SnapshotResult,
    "list": ListResult,
    "reset": ResetResult,
    "shutdown": ShutdownResult,
}
