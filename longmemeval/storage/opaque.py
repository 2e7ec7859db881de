"""What code of others sees of a history: opaque ids in place of ours, which can carry labels.

The ids of a history, a session and a question become hashes that are the same every time; a message keeps its number
within its session. Ids that come back are translated. Files are not hidden: code that runs in the process can read
whatever its user can.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import structs

from longmemeval.core.files import sha256_text
from longmemeval.records import FixtureMeta, Haystack, Message, Question, Recall
from longmemeval.storage.messages import resource_id, thread_ids

_PACKAGE = __name__.partition(".")[0]
_LENGTH = 16
_JSON_TEXT = re.compile(rb'"[^"\\\n]{1,300}"')
RECIPE = {"ids": "opaque"}
"""Entry in the recipe of a part that code of others made from opaque ids; earlier versions gave it ours."""


def is_foreign(thing: object) -> bool:
    """Return whether the class of an object belongs to another package than this one."""
    return type(thing).__module__.partition(".")[0] != _PACKAGE


def opaque_id(sign: str, *parts: object) -> str:
    """Return an id that says nothing: a sign of its kind, and a hash of everything that distinguishes it."""
    return f"{sign}_{sha256_text(chr(0).join(map(str, parts)))[:_LENGTH]}"


def opaque_question(question: Question) -> Question:
    """Return a question under an opaque id, asked of a history with one."""
    own = question.question_id, question.haystack_id
    return structs.replace(question, question_id=opaque_id("q", own[0]), haystack_id=opaque_id("h", own[1]))


class HistoryIds:
    """The opaque ids of one history.

    Args:
        haystack_id: the history's id.
        threads: ids of its threads, in order.
    """

    def __init__(self, haystack_id: str, threads: Sequence[str]) -> None:
        self.haystack_id = opaque_id("h", haystack_id)
        self._shown = {haystack_id: self.haystack_id, resource_id(haystack_id): resource_id(self.haystack_id)}
        self._shown |= {thread: opaque_id("s", haystack_id, place) for place, thread in enumerate(threads)}
        self._own = {shown: own for own, shown in self._shown.items()}

    def shown(self, name: str) -> str:
        """Return the opaque id of a thread, message or history; any other text as it is."""
        return _translated(name, self._shown)

    def own(self, name: str) -> str:
        """Return our id of a thread, message or history; any other text as it is."""
        return _translated(name, self._own)

    def haystack(self, haystack: Haystack) -> Haystack:
        """Return a history with opaque ids."""
        named = zip(thread_ids(haystack), haystack.sessions, strict=True)
        sessions = tuple(structs.replace(session, session_id=self._shown[thread]) for thread, session in named)
        return Haystack(self.haystack_id, sessions)

    def message(self, message: Message) -> Message:
        """Return a message with opaque ids."""
        thread_id = self._shown[message.thread_id]
        return structs.replace(message, message_id=f"{thread_id}:{message.index}", thread_id=thread_id)

    def meta(self, meta: FixtureMeta) -> FixtureMeta:
        """Return the `meta.json` of a fixture with opaque ids."""
        return structs.replace(
            meta,
            haystack_id=self.haystack_id,
            question_ids=tuple(opaque_id("q", question_id) for question_id in meta.question_ids),
            resource_id=resource_id(self.haystack_id),
            thread_ids=tuple(map(self.shown, meta.thread_ids)),
        )

    def recall(self, recall: Recall, rename: Callable[[str], str]) -> Recall:
        """Return a recall with ids translated by `shown` or `own`."""
        items = tuple(
            structs.replace(
                item,
                message_ids=tuple(map(rename, item.message_ids)),
                thread_ids=tuple(map(rename, item.thread_ids)),
            )
            for item in recall.items
        )
        return structs.replace(recall, items=items, left_out_ids=tuple(map(rename, recall.left_out_ids)))

    def file(self, data: bytes) -> bytes:
        """Return the JSON of a part with opaque ids wherever a whole text is an id."""

        def renamed(text: re.Match[bytes]) -> bytes:
            own = text[0][1:-1].decode("utf-8", "replace")
            shown = self.shown(own)
            return text[0] if shown is own else msgspec.json.encode(shown)

        return _JSON_TEXT.sub(renamed, data)


def opaque_folder(folder: Path) -> Path:
    """Return another path of a folder, which says nothing: a link; where none can be made, the folder itself."""
    link = Path(_links().name, opaque_id("f", folder.absolute()), folder.name)
    try:
        link.parent.mkdir(exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(folder.absolute(), target_is_directory=True)
    except FileExistsError:  # Another thread made it.
        pass
    except OSError:
        return folder
    return link


@cache
def _links() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="longmemeval-")


def _translated(name: str, names: dict[str, str]) -> str:
    if name in names:
        return names[name]
    thread, colon, index = name.rpartition(":")
    return f"{names[thread]}:{index}" if colon and thread in names else name
