"""The messages of the memory protocol, version 1. `docs/memory-protocol.schema.json` is generated from these records.

A client sends requests, a memory service answers. The envelope depends on the transport: a child process reads
`Request` lines and writes `Response` and `Notification` lines; over HTTP the parameters are the body of
`POST /v1/<method>`.
Dates have no time zone. Ids are opaque: they carry no information and belong to one scope.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
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
Method = Literal["hello", "open", "add", "ready", "search", "delete", "snapshot", "list", "reset", "shutdown"]


class _Sent(Struct, frozen=True, forbid_unknown_fields=True):
    """A record that the client sends; it has these fields and no others."""


class _Replied(Struct, frozen=True, omit_defaults=True):
    """A record that a service replies; it may have further fields, which the client ignores."""


class Hello(_Sent, frozen=True):
    """The greeting of the client, with its version of the protocol."""

    protocol: int = PROTOCOL


class Capabilities(_Replied, frozen=True):
    """The capabilities of a service; they decide which calls the client makes and what tables can show."""

    dates: Literal["native", "text", "none"] = "none"
    """Dates of sessions are kept as dates, reach the memory only inside texts, or are lost."""
    provenance: Literal["message", "session", "none"] = "none"
    """The level on which a search item names its source."""
    unit: Literal["session", "pair", "turn"] = "session"
    """The unit of one `add`: a whole session, a user message with what follows it, or one message."""
    persist: Literal["directory", "service", "none"] = "none"
    """The place where an ingested scope stays: its directory, the service under a reference, or none."""
    max_parallel: Annotated[int, Meta(ge=1)] = 1
    """The number of scopes that can be worked on at once."""
    list: bool = False
    """True if the service has the method `list`."""
    delete: bool = False
    """True if the service has the method `delete`."""
    signals: tuple[str, ...] = ()
    """The active signals of a search, such as `vectors`, `words`, `graph`."""
    telemetry: Literal["off", "on", "unknown"] = "unknown"
    """The state of the product's telemetry to its maker."""
    models: Literal["none", "offered", "own", "unknown"] = "unknown"
    """The models it calls: none, only those at the addresses in `open`, or its own, whose cost is not counted."""


class HelloResult(_Replied, frozen=True):
    """The greeting of the service: its name, versions and capabilities."""

    protocol: int
    name: str
    packages: dict[str, str] = {}
    """Versions of the packages that the results depend on."""
    capabilities: Capabilities = Capabilities()


class Open(_Sent, frozen=True):
    """Open a scope: to fill it (`prepare`), continuing an earlier attempt, or to search it (`read`)."""

    scope: str
    """The name of one history, kept apart from all others."""
    directory: str
    """A folder for this scope alone, to write to; empty for services that keep their state themselves."""
    mode: Literal["prepare", "read"]
    configuration: dict[str, Any] = {}
    """The user's parameters of the memory."""
    reference: str = ""
    """The result of `snapshot`; sent in mode `read`, and when failed batches are retried."""
    chat_base_url: str = ""
    """The address at which to call chat models by the OpenAI API; ends in `/v1`. Empty: the system's own."""
    chat_model: str = ""
    """The model that answers there, whatever name a request has."""
    embedding_base_url: str = ""
    """The address at which to call embedding models by the OpenAI API; ends in `/v1`. Empty: the system's own."""
    embedding_model: str = ""
    embedding_dimension: Annotated[int, Meta(ge=0)] = 0
    """The length of its vectors; 0: not known."""


class OpenResult(_Replied, frozen=True):
    """The batches that the scope already contains."""

    batch_ids: tuple[str, ...] = ()
    """Batches kept from an earlier attempt, which are not sent again."""


class SentMessage(_Sent, frozen=True):
    """One message of a session."""

    id: str
    role: Literal["user", "assistant"]
    speaker: str
    """The speaker's name; empty if the data has none."""
    content: str


class SentSession(_Sent, frozen=True):
    """A session, or part of one if the service takes smaller units."""

    id: str
    date: NaiveDate
    messages: tuple[SentMessage, ...]


class Add(_Sent, frozen=True):
    """Add a session. A batch id that was added before has no effect."""

    scope: str
    batch_id: str
    session: SentSession


class ReportedUsage(_Replied, frozen=True):
    """The usage of its own model calls, as a service reports it."""

    calls: Annotated[int, Meta(ge=0)] = 0
    prompt_tokens: Annotated[int, Meta(ge=0)] = 0
    completion_tokens: Annotated[int, Meta(ge=0)] = 0


class AddResult(_Replied, frozen=True):
    """The result of adding a batch."""

    refs: dict[str, tuple[str, ...]] = {}
    """Ids of messages, by the service's names for what it made from them."""
    usage: ReportedUsage | None = None


class Ready(_Sent, frozen=True):
    """Ask whether everything that was added can be found."""

    scope: str


class FailedBatch(_Replied, frozen=True):
    """A batch that failed, and why."""

    batch_id: str
    error: str = ""


class ReadyResult(_Replied, frozen=True):
    """The progress of the service. `failed` is final; `pending` is asked about again."""

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
    """The moment at which the question is asked."""
    limit: Annotated[int, Meta(ge=1)]
    """Maximum number of items to return."""
    token_budget: int | None = None
    """Maximum number of tokens to return, for services that can limit them."""


class SearchItem(_Replied, frozen=True):
    """One item found, best first."""

    text: str
    kind: Literal["message", "fact", "summary"] = "message"
    ref: str = ""
    """A name from the result of an `add`, which tells the messages it was made from."""
    date: datetime | None = None
    """The moment it was said or became true; no time zone, or UTC if the service took our dates for UTC."""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    speaker: str = ""
    message_ids: tuple[str, ...] = ()
    session_ids: tuple[str, ...] = ()
    score: float | None = None


class SearchResult(_Replied, frozen=True):
    """The items found."""

    items: tuple[SearchItem, ...]
    truncated: bool = False
    """True if more was found than is returned."""
    usage: ReportedUsage | None = None


class Delete(_Sent, frozen=True):
    """Delete everything that was said about a subject, for good."""

    scope: str
    subject: str
    """A name of it, in the words in which people speak of it."""


class DeleteResult(_Replied, frozen=True):
    """Nothing about the subject can be found any more."""


class Snapshot(_Sent, frozen=True):
    """Write everything to the directory and close the scope."""

    scope: str


class SnapshotResult(_Replied, frozen=True):
    """The place where the scope is kept."""

    reference: str = ""
    """The scope's name at the service; empty if everything is in the directory."""


class List(_Sent, frozen=True):
    """List everything that a scope contains."""

    scope: str


class ListResult(_Replied, frozen=True):
    """Everything that a scope contains."""

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
    """The reason why a method failed."""

    code: str
    message: str
    retryable: bool = False
    """True if the same call may succeed a little later."""


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
    """The progress of a long call; while `done` grows, the call does not time out."""

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
    "delete": Delete,
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
    "delete": DeleteResult,
    "snapshot": SnapshotResult,
    "list": ListResult,
    "reset": ResetResult,
    "shutdown": ShutdownResult,
}


# The published JSON Schema of the memory protocol, generated from its records.

_ENVELOPE: dict[str, type[msgspec.Struct]] = {
    "request": Request,
    "response": Response,
    "notification": Notification,
    "fault": Fault,
}


def protocol_schema() -> dict[str, Any]:
    """Return the schema.

    `$defs` has `<method>.params` and `<method>.result` for every method, and the lines of the envelope. The document
    itself accepts the lines of a child process.
    """
    named = {f"{method}.params": record for method, record in PARAMETERS.items()}
    named |= {f"{method}.result": record for method, record in RESULTS.items()}
    named |= _ENVELOPE
    references, components = msgspec.json.schema_components(named.values(), ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"longmemeval memory protocol, version {PROTOCOL}",
        "anyOf": [{"$ref": f"#/$defs/{line}"} for line in ("request", "response", "notification")],
        "$defs": dict(zip(named, references, strict=True)) | components,
    }
