"""The published files of ConvoMem, split into haystacks whose conversations are decoded on demand.

Two kinds exist. An evidence file is an object `{"evidence_items": [...]}`: every item has a question and its own
conversations. A test-case file is an array of objects (or one object) `{"evidenceItems": [...], "conversations": [...],
"contextSize": n}`: its conversations are those of all its items, and others. Either kind may use either spelling of its
names. Field names and their meaning are those of the official code (SalesforceAIResearch/ConvoMem:
`EvidenceSchema.scala`, `TestCase.scala`). A file may have 850 MB: it is mapped into memory, and conversations stay
undecoded views of the mapping.

The folders, `<category>/<n>_evidence/<file>.json` as published, state what the files do not: the category and the
evidence count. The field `category` inside an item
is the theme of its scenario, such as "Professional Life", and does not matter for grading.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct, field

from longmemeval.benchmarks.data_files import Place, json_in, malformed, map_file
from longmemeval.core.files import sha256_bytes
from longmemeval.errors import DataError, nearest
from longmemeval.records import Role, Turn

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_Text = Annotated[str, Meta(pattern=r"\S")]


class EvidenceMessage(Struct, frozen=True):
    """A message with evidence, repeated from its conversation. Only the text is used."""

    text: str


class Item(Struct, frozen=True):
    """A question with its answer, or rubric, and the conversations with its evidence."""

    question: _Text
    answer: _Text
    message_evidences: tuple[EvidenceMessage, ...]
    conversations: tuple[Raw, ...]


class _Record(Struct, frozen=True):
    """An evidence file, or one test case."""

    snake_items: tuple[Item, ...] | None = field(name="evidence_items", default=None)
    camel_items: tuple[Item, ...] | None = field(name="evidenceItems", default=None)
    conversations: tuple[Raw, ...] | None = None
    snake_size: int | None = field(name="context_size", default=None)
    camel_size: int | None = field(name="contextSize", default=None)


class _Message(Struct, frozen=True):
    speaker: str
    text: str


class _Conversation(Struct, frozen=True):
    messages: tuple[_Message, ...]


class _Id(Struct, frozen=True):
    id: str | None = None


_RAW = msgspec.json.Decoder(Raw)
_RAWS = msgspec.json.Decoder(list[Raw])
_RECORD = msgspec.json.Decoder(_Record)
_CONVERSATION = msgspec.json.Decoder(_Conversation)
_ID = msgspec.json.Decoder(_Id)


class Case(Struct, frozen=True, dict=True):
    """One haystack as in the file, and the questions about it."""

    place: Place
    field: str
    """Path of `conversations` in the record."""
    conversations: tuple[Raw, ...]
    items: tuple[tuple[str, Item], ...]
    """Items with their paths in the record, such as `evidenceItems[3]`."""
    context_size: int
    """Intended number of conversations in the haystack; evidence is never cut, so there may be more."""

    @property
    def shared(self) -> bool:
        """True for a test case, whose conversations belong to several items."""
        return self.field == "conversations"

    @cached_property
    def conversation_ids(self) -> tuple[str | None, ...]:
        """The id of each conversation; None for one without an id."""
        return tuple(self.id_of(f"{self.field}[{index}]", raw) for index, raw in enumerate(self.conversations))

    @cached_property
    def session_ids(self) -> tuple[str, ...]:
        """Ids of the conversations if they are unique, else `conversation_<index>`."""
        times = Counter(self.conversation_ids)
        stand_ins = {f"conversation_{index}": index for index in range(len(self.conversations))}
        return tuple(
            own if own is not None and times[own] == 1 and stand_ins.get(own, index) == index else stand_in
            for own, (stand_in, index) in zip(self.conversation_ids, stand_ins.items(), strict=True)
        )

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """Hash of the content of each conversation."""
        return tuple(map(digest, self.sessions()))

    def sessions(self) -> Iterator[tuple[Turn, ...]]:
        """Return the turns of each conversation, decoded and validated one at a time."""
        return map(self.session, range(len(self.conversations)))

    def session(self, index: int) -> tuple[Turn, ...]:
        """Return the turns of one conversation."""
        return self.turns_of(f"{self.field}[{index}]", self.conversations[index])

    def id_of(self, field: str, conversation: Raw) -> str | None:
        """Return the id of the conversation at `field` of the record."""
        return self.place.decode(field, _ID, conversation).id or None

    def turns_of(self, field: str, conversation: Raw) -> tuple[Turn, ...]:
        """Return the turns of the conversation at `field` of the record; raises `DataError` if it is empty."""
        messages = self.place.decode(field, _CONVERSATION, conversation).messages
        if not messages:
            raise self.place.fault(f"{field}.messages", "The conversation has no message")
        return tuple(
            Turn(self._role(f"{field}.messages[{index}].speaker", message.speaker), message.text)
            for index, message in enumerate(messages)
        )

    def _role(self, field: str, speaker: str) -> Role:
        role = _ROLES.get(speaker.lower())
        if role is None:
            what = f"{speaker!r} is not a speaker"
            raise self.place.fault(field, what, "A message is said by 'User' or 'Assistant'")
        return role


def digest(turns: tuple[Turn, ...]) -> str:
    """Return the hash of a conversation's turns."""
    return sha256_bytes(msgspec.json.encode(turns))


def read_cases(path: Path) -> tuple[Case, ...]:
    """Split a file into its haystacks, in file order; the mapping is released with the last of them.

    Raises:
        DataError: the file cannot be read, has another format, or a question in it is invalid.
    """
    raws, is_array = _split(path)
    return tuple(
        case
        for number, raw in enumerate(raws, start=1)
        for case in _cases(Place(path, number, ""), raw, may_be_evidence=not is_array)
    )


def _split(path: Path) -> tuple[list[Raw], bool]:
    """Return the records of a file, where a single object is one record, and whether it is an array."""
    data = json_in(path, map_file(path))
    is_array = re.match(rb"\s*\{", data) is None
    try:
        raws = _RAWS.decode(data) if is_array else [_RAW.decode(data)]
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(path, len(data), error) from None
    if not raws:
        raise DataError(
            "The dataset file is an empty array", where=str(path), fix="It must contain at least one record"
        )
    return raws, is_array


def _cases(place: Place, raw: Raw, *, may_be_evidence: bool) -> Iterator[Case]:
    """Yield the haystack of a test case, or one for each item of an evidence file."""
    record = place.decode("", _RECORD, raw)
    name = "evidenceItems" if record.snake_items is None else "evidence_items"
    items = record.camel_items if record.snake_items is None else record.snake_items
    if items is None:
        raise place.fault(name, "The field 'evidenceItems' is missing", "An evidence file may call it 'evidence_items'")
    placed = tuple((f"{name}[{index}]", item) for index, item in enumerate(items))
    for where, item in placed:
        if not item.conversations:
            raise place.fault(f"{where}.conversations", "The item has no conversation, its evidence is nowhere")
    size = record.snake_size if record.camel_size is None else record.camel_size
    if record.conversations is not None:
        if not record.conversations:
            raise place.fault("conversations", "The test case has no conversation")
        size = len(record.conversations) if size is None else size
        yield Case(place, "conversations", record.conversations, placed, size)
    elif may_be_evidence and size is None:
        for where, item in placed:
            own = item.conversations
            yield Case(place, f"{where}.conversations", own, ((where, item),), len(own))
    else:
        raise place.fault("conversations", "The field 'conversations' is missing")


CATEGORIES = {
    "user_evidence": "user-facts",
    "assistant_facts_evidence": "assistant-facts",
    "changing_evidence": "changing-facts",
    "abstention_evidence": "abstention",
    "preference_evidence": "preferences",
    "implicit_connection_evidence": "implicit-connections",
}
"""Question type by name of the folder."""

_LAYOUT = "Lay the files out as <category>/<n>_evidence/*.json"
_EVIDENCE_FOLDER = re.compile(r"([1-9]\d{0,3})_evidence", re.ASCII)


class Origin(NamedTuple):
    """Facts about a file that the names of its folders state."""

    category: str
    """Folder of the category."""
    evidence: int | None
    """Number of evidence messages per question; None if no folder states it."""
    prefix: str
    """Prefix of the ids of the file's haystacks: `<category>-<n>e-<folders below and file stem>`."""


class Listing(NamedTuple):
    """The JSON files below a folder, in the order of their paths."""

    files: tuple[tuple[Path, Origin], ...]
    passed_over: tuple[Path, ...]
    """Files that are in no category."""


def origin_of(path: Path) -> Origin:
    """Return the facts in the folder names of `path`.

    Raises:
        DataError: no folder is a category.
    """
    origin = _origin(path)
    if origin is None:
        raise _without_category(path)
    return origin


def list_files(folder: Path) -> Listing:
    """Return the files of ConvoMem below `folder`, except hidden ones.

    Raises:
        DataError: there is no file, or one is in a folder `<n>_evidence` of no known category.
    """
    files, passed_over = [], []
    for path in sorted(folder.rglob("*.json")):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        if origin := _origin(path):
            files.append((path, origin))
        elif any(map(_EVIDENCE_FOLDER.fullmatch, _folders(path))):
            raise _without_category(path)
        else:
            passed_over.append(path)
    if not files:
        what = "The folder holds no file of ConvoMem"
        raise DataError(what, where=str(folder), fix=f"{_LAYOUT}. {nearest('', CATEGORIES)}")
    return Listing(tuple(files), tuple(passed_over))


def claims_folder(folder: Path) -> bool:
    """Return whether a JSON file is below the folder in the layout of ConvoMem."""
    below = (_folders(path) for path in folder.rglob("*.json"))
    return any(name in CATEGORIES or _EVIDENCE_FOLDER.fullmatch(name) for names in below for name in names)


def _folders(path: Path) -> tuple[str, ...]:
    # Links are not resolved: the files of a download cache are links to files with other names.
    return Path(os.path.abspath(path)).parent.parts


def _origin(path: Path) -> Origin | None:
    folders = _folders(path)
    levels = [level for level, name in enumerate(folders) if name in CATEGORIES]
    if not levels:
        return None
    category, below = folders[levels[-1]], folders[levels[-1] + 1 :]
    counts = [int(match[1]) for name in below if (match := _EVIDENCE_FOLDER.fullmatch(name))]
    rest = [name for name in below if not _EVIDENCE_FOLDER.fullmatch(name)]
    named = [category, *(f"{count}e" for count in counts[:1]), *rest, path.name.removesuffix(".json")]
    return Origin(category, counts[0] if counts else None, "-".join(named))


def _without_category(path: Path) -> DataError:
    """Return the error for a path without a category.

    It suggests a name for the folder above `<n>_evidence`, else for the innermost folder, as the likeliest category.
    """
    meant = next((name for name in reversed(_folders(path)) if not _EVIDENCE_FOLDER.fullmatch(name)), "")
    what = "No folder of the path names the category of the file's questions"
    return DataError(what, where=str(path), fix=f"{_LAYOUT}. {nearest(meant, CATEGORIES)}")
