"""Where files of BEAM are: `chats/<size>/<n>/`, and which of two texts of a conversation is read."""

import os
import re
from pathlib import Path
from typing import Literal

from msgspec import Struct

from longmemeval.errors import DataError

Text = Literal["official", "full"]

SIZES = {"100K": 100, "500K": 500, "1M": 1_000, "10M": 10_000}
"""Folder -> thousands of tokens that its name says. Never inferred from the texts."""
CUT_NAME, FULL_NAME = "chat_trunecated.json", "chat.json"
QUESTIONS = Path("probing_questions") / "probing_questions.json"

_PLAN_FOLDER = re.compile(r"plan-(\d{1,3})", re.ASCII)


class Files(Struct, frozen=True):
    """The files of one conversation."""

    haystack_id: str
    """`100K-5`."""
    size: str
    questions: Path
    full: tuple[Path, ...]
    """`chat.json`, or those of its plans; empty where there are none."""
    cut: Path | None
    """The text that the official run reads, where the authors cut it."""

    def chats(self, text: Text) -> tuple[Path, ...]:
        """What is read."""
        return (self.cut,) if self.cut and (text == "official" or not self.full) else self.full


def claims_folder(folder: Path) -> bool:
    """Whether it is a folder of conversations, or one conversation."""
    return (folder / QUESTIONS).is_file() or any(folder.glob(f"*/{QUESTIONS}"))


def list_conversations(folder: Path) -> list[Files]:
    """The conversations of a folder `chats/<size>`, by number; of a folder `chats/<size>/<n>` that one.

    Raises:
        DataError: there is none, or one lacks its text.
    """
    # Not `resolve()`: files of a download cache are links to files that carry no name.
    folder = Path(os.path.abspath(folder))
    single = (folder / QUESTIONS).is_file()
    homes = [folder] if single else sorted((one.parent.parent for one in folder.glob(f"*/{QUESTIONS}")), key=_by_number)
    if not homes:
        fix = f"Give a folder chats/<size> that holds <n>/{QUESTIONS} and <n>/{FULL_NAME}"
        raise DataError("The folder holds no conversation of BEAM", where=str(folder), fix=fix)
    return [_files(home) for home in homes]


def _files(home: Path) -> Files:
    plans = sorted(
        (one for one in home.glob(f"plan-*/{FULL_NAME}") if _PLAN_FOLDER.fullmatch(one.parent.name)), key=_plan
    )
    numbers = [_plan(path) for path in plans]
    if numbers != list(range(len(numbers))):
        what = f"Plans are missing: there are {', '.join(path.parent.name for path in plans)}"
        raise DataError(what, where=str(home), fix="Evidence ids count all plans from plan-0 on: download the rest")
    full = tuple(plans) or tuple(path for path in (home / FULL_NAME,) if path.is_file())
    cut = home / CUT_NAME
    if not full and not cut.is_file():
        raise DataError(f"The conversation has no {FULL_NAME}", where=str(home), fix="Download it again")
    size = home.parent.name
    return Files(f"{size}-{home.name}", size, home / QUESTIONS, full, cut if cut.is_file() else None)


def _by_number(home: Path) -> tuple[int, str]:
    return (int(home.name) if home.name.isdecimal() else 1 << 30, home.name)


def _plan(path: Path) -> int:
    return int(path.parent.name.removeprefix("plan-"))
