"""Paths of BEAM's files, `chats/<size>/<n>/`, and the choice between two texts of a conversation."""

import os
import re
from pathlib import Path
from typing import Literal

from msgspec import Struct

from longmemeval.errors import DataError

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
        what = f"Plans are missing: there are {', '.join(path.parent.name for path in plans)}"
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
