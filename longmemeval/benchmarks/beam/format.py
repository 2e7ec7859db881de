"""The published files of BEAM: one folder for each conversation, with ten plans at 10M.

Field names and their meaning are those of the official code (mohammadtavakoli78/BEAM at b2a3ee8). The `time_anchor` of
a batch is always null there: the first message of the batch has the date. A combined file of ten plans is
`[{"plan-1": [batches]}, …]`; the folders of the plans count from 0, and message ids restart in each plan.
"""

import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from longmemeval.benchmarks.data_files import Place, json_in, malformed, map_file
from longmemeval.core.text.quantities import MONTHS
from longmemeval.errors import DataError
from longmemeval.records import Role

MARKER = re.compile(r"\s*->->[^\n]*\s*$")
"""The suffix that the generator left on every main question: ` ->-> 1,5`."""

GOLD_TEXTS = {
    "abstention": "ideal_response",
    "contradiction_resolution": "ideal_answer",
    "event_ordering": "answer",
    "information_extraction": "answer",
    "instruction_following": "expected_compliance",
    "knowledge_update": "answer",
    "multi_session_reasoning": "answer",
    "preference_following": "expected_compliance",
    "summarization": "ideal_summary",
    "temporal_reasoning": "answer",
}
"""The field of the gold text by ability, in the order of the files."""

_DATE = re.compile(r"([A-Za-z]+)-(\d{1,2})-(\d{4})", re.ASCII)


class Message(Struct, frozen=True):
    """A message with its text."""

    role: Role
    id: int
    content: str
    time_anchor: str | None = None


class Bare(Struct, frozen=True):
    """A message without its text."""

    id: int
    time_anchor: str | None = None


M = TypeVar("M", Message, Bare)


class _Batch(Struct, Generic[M], frozen=True):
    turns: list[list[M]]


class Batch(Struct, Generic[M], frozen=True):
    """One batch, which becomes a session."""

    name: str
    """Name such as `batch_3`, with plans `plan_2_batch_7`, both counted from 1."""
    messages: tuple[M, ...]
    offset: int
    """Offset that makes the message ids global: the ids of each plan start at 0."""

    @property
    def anchor(self) -> str | None:
        """The date as in the data."""
        return self.messages[0].time_anchor


_MESSAGES = msgspec.json.Decoder(_Batch[Message])
_BARE = msgspec.json.Decoder(_Batch[Bare])
_RAWS = msgspec.json.Decoder(list[Raw])
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_QUESTIONS = msgspec.json.Decoder(dict[str, list[dict[str, Any]]])


def read_messages(paths: Sequence[Path]) -> Iterator[Batch[Message]]:
    """Yield the batches of a conversation, one in memory at a time; raises `DataError` at the first invalid one."""
    return _batches(paths, _MESSAGES)


def read_bare(paths: Sequence[Path]) -> Iterator[Batch[Bare]]:
    """Yield the same batches as `read_messages`, without the texts: several times faster."""
    return _batches(paths, _BARE)


def _batches(paths: Sequence[Path], decoder: "msgspec.json.Decoder[_Batch[M]]") -> Iterator[Batch[M]]:
    next_id = 0
    for plan, path in enumerate(paths, start=1):
        offset = next_id
        for name, place, field, raw in _raw_batches(path, f"plan_{plan}_" if len(paths) > 1 else ""):
            turns = place.decode(field, decoder, raw).turns
            messages = tuple(message for turn in turns for message in turn)
            if not messages:
                raise place.fault(f"{field}.turns".lstrip("."), "The batch has no message")
            yield Batch(name, messages, offset)
            next_id = offset + messages[-1].id + 1


def _raw_batches(path: Path, prefix: str) -> Iterator[tuple[str, Place, str, Raw]]:
    """Yield name, place and JSON of each batch of a file, of one plan or of several combined."""
    data = json_in(path, map_file(path))
    try:
        records = _RAWS.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise malformed(path, len(data), error) from None
    if not records:
        raise DataError("The conversation has no batch", where=str(path), fix="Download the file again")
    batches = 0
    for number, record in enumerate(records, start=1):
        place = Place(path, number, "")
        fields = place.decode("", _OBJECT, record)
        if "turns" in fields:
            batches += 1
            yield f"{prefix}batch_{batches}", place, "", record
            continue
        # Rows of the copy at Hugging Face have keys for all plans, all but one null.
        for plan, value in fields.items():
            if bytes(value) != b"null":
                batches_of_plan: list[Raw] = place.decode(plan, _RAWS, value)
                for index, raw in enumerate(batches_of_plan):
                    yield f"{plan.replace('-', '_')}_batch_{index + 1}", place, f"{plan}[{index}]", raw


def date_of(anchor: str | None) -> datetime | None:
    """Return midnight of a day such as `March-15-2024`; None for no date, or another form."""
    match = _DATE.fullmatch((anchor or "").strip())
    if match is None or match[1] not in MONTHS:
        return None
    try:
        return datetime(int(match[3]), MONTHS.index(match[1]) + 1, int(match[2]))
    except ValueError:
        return None


class Probe(Struct, frozen=True):
    """A question with its gold."""

    ability: str
    number: int
    """Number within its ability, from 0."""
    fields: dict[str, Any]
    """The fields as in the file."""

    @property
    def rubric(self) -> tuple[str, ...]:
        """The nuggets that grade an answer."""
        return tuple(self.fields["rubric"])

    @property
    def labels(self) -> object:
        """The evidence labels of the data: `source_chat_ids`, without these a list `conversation_sessions`."""
        if "source_chat_ids" in self.fields:
            return self.fields["source_chat_ids"]
        elsewhere = self.fields.get("conversation_sessions")
        return elsewhere if isinstance(elsewhere, list) else None

    @property
    def source_ids(self) -> tuple[int, ...]:
        """Global ids of the evidence messages, each once, in the order of the data."""
        return tuple(dict.fromkeys(label for label in flat(self.labels) if isinstance(label, int)))


def flat(labels: object) -> Iterator[object]:
    """Yield the leaves of nested lists and objects, in order."""
    if isinstance(labels, dict):
        labels = list(labels.values())
    if isinstance(labels, list):
        for item in labels:
            yield from flat(item)
    elif labels is not None:
        yield labels


def read_probes(path: Path) -> tuple[Probe, ...]:
    """Return the questions of a conversation, in file order.

    Raises:
        DataError: the file cannot be read, or lacks a required field of a question.
    """
    place = Place(path, 1, "")
    data = json_in(path, map_file(path))
    try:
        abilities = _QUESTIONS.decode(data)
    except msgspec.ValidationError:
        raise place.fault("", "The questions are not an object of lists, one for each ability") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(path, len(data), error) from None
    return tuple(
        _checked(place, Probe(ability, number, fields))
        for ability, listed in abilities.items()
        for number, fields in enumerate(listed)
    )


def _checked(place: Place, probe: Probe) -> Probe:
    where = f"{probe.ability}[{probe.number}]"
    if probe.ability not in GOLD_TEXTS:
        raise place.fault(probe.ability, f"{probe.ability!r} is not an ability", f"Known are {', '.join(GOLD_TEXTS)}")
    for field in ("question", GOLD_TEXTS[probe.ability]):
        if not isinstance(text := probe.fields.get(field), str) or not text.strip():
            raise place.fault(f"{where}.{field}", "The text is missing or blank")
    rubric = probe.fields.get("rubric")
    if (
        not isinstance(rubric, list)
        or not rubric
        or not all(isinstance(nugget, str) and nugget.strip() for nugget in rubric)
    ):
        raise place.fault(f"{where}.rubric", "The rubric is not a list of texts")
    return probe


Text = Literal["official", "full"]

SIZES = {"100K": 100, "500K": 500, "1M": 1_000, "10M": 10_000}
"""Thousands of tokens in the name of each folder; never inferred from the texts."""
CUT_NAME, FULL_NAME = "chat_trunecated.json", "chat.json"
QUESTIONS = Path("probing_questions") / "probing_questions.json"

_PLAN_FOLDER = re.compile(r"plan-(\d{1,3})", re.ASCII)


class Files(Struct, frozen=True):
    """The files of one conversation."""

    haystack_id: str
    """Id such as `100K-5`."""
    size: str
    questions: Path
    full: tuple[Path, ...]
    """`chat.json`, or those of the plans; empty if there are none."""
    cut: Path | None
    """The cut text that the official run reads, if the authors cut it."""

    def chats(self, text: Text) -> tuple[Path, ...]:
        """Return the files to read."""
        return (self.cut,) if self.cut and (text == "official" or not self.full) else self.full


def claims_folder(folder: Path) -> bool:
    """Return whether the folder contains conversations, or is a single conversation."""
    return (folder / QUESTIONS).is_file() or any(folder.glob(f"*/{QUESTIONS}"))


def list_conversations(folder: Path) -> list[Files]:
    """Return the conversations of a folder `chats/<size>`, by number; of a folder `chats/<size>/<n>` only that one.

    Raises:
        DataError: there is no conversation, or one lacks its text.
    """
    # Links are not resolved: files of a download cache are links to files with other names.
    folder = Path(os.path.abspath(folder))
    single = (folder / QUESTIONS).is_file()
    conversations = (
        [folder] if single else sorted((path.parent.parent for path in folder.glob(f"*/{QUESTIONS}")), key=_by_number)
    )
    if not conversations:
        fix = f"Give a folder chats/<size> that holds <n>/{QUESTIONS} and <n>/{FULL_NAME}"
        raise DataError("The folder holds no conversation of BEAM", where=str(folder), fix=fix)
    return [_files(conversation) for conversation in conversations]


def _files(conversation: Path) -> Files:
    plans = sorted(
        (path for path in conversation.glob(f"plan-*/{FULL_NAME}") if _PLAN_FOLDER.fullmatch(path.parent.name)),
        key=_plan,
    )
    numbers = [_plan(path) for path in plans]
    if numbers != list(range(len(numbers))):
        what = f"Plans are missing; found: {', '.join(path.parent.name for path in plans)}"
        raise DataError(
            what, where=str(conversation), fix="Download the rest: evidence ids count all plans from plan-0 on"
        )
    full = tuple(plans) or tuple(path for path in (conversation / FULL_NAME,) if path.is_file())
    cut = conversation / CUT_NAME
    if not full and not cut.is_file():
        raise DataError(f"The conversation has no {FULL_NAME}", where=str(conversation), fix="Download it again")
    size = conversation.parent.name
    return Files(f"{size}-{conversation.name}", size, conversation / QUESTIONS, full, cut if cut.is_file() else None)


def _by_number(conversation: Path) -> tuple[int, str]:
    return (int(conversation.name) if conversation.name.isdecimal() else 1 << 30, conversation.name)


def _plan(path: Path) -> int:
    return int(path.parent.name.removeprefix("plan-"))
