"""Files of PersonaMem: `questions_<size>.csv` and `shared_contexts_<size>.jsonl`, side by side in a folder."""

import ast
import csv
import io
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.core.text_files import read_text, reading
from longmemeval.errors import DataError

LETTERS = "abcd"
FIELDS = (
    *("persona_id", "question_id", "question_type", "user_question_or_message", "correct_answer", "all_options"),
    *("shared_context_id", "end_index_in_shared_context"),
)


class ContextTurn(Struct, frozen=True):
    """A turn of a context. A system turn, the persona, opens each session."""

    role: Literal["system", "user", "assistant"]
    content: str


class Row(Struct, frozen=True):
    """A question."""

    persona_id: str
    question_id: str
    question_type: str
    text: str
    letter: str
    options: tuple[str, ...]
    """Four texts, each of which begins with its letter: `(a) …`."""
    context_id: str
    end: int
    """Number of turns of the context that come before the question."""


class Files(Struct, frozen=True):
    """The two files of a size."""

    questions: Path
    contexts: Path


def files_in(folder: Path) -> list[Files]:
    """Return the pairs of files of a folder, by name."""
    pairs = (
        Files(path, path.with_name(path.name.replace("questions_", "shared_contexts_")).with_suffix(".jsonl"))
        for path in sorted(folder.glob("questions_*.csv"))
    )
    return [pair for pair in pairs if pair.contexts.is_file()]


def read_contexts(path: Path) -> dict[str, tuple[ContextTurn, ...]]:
    """Return the contexts by id; the file has one on each line.

    Raises:
        DataError: the file cannot be read, or the hash of a context is not its id.
    """
    contexts: dict[str, tuple[ContextTurn, ...]] = {}
    decoder = msgspec.json.Decoder(dict[str, tuple[ContextTurn, ...]])
    for number, line in enumerate(_read(path).splitlines(), start=1):
        where = f"{path}, line {number}"
        try:
            decoded = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DataError(f"The line is not a context: {error}", where=where, fix="Download the file again") from None
        for context_id, turns in decoded.items():
            if context_id_of(turns) != context_id:
                what = f"The content of context {context_id[:12]} does not match its id"
                raise DataError(what, where=where, fix="Download the file again: the id is a hash of the content")
            contexts[context_id] = turns
    return contexts


def context_id_of(turns: Sequence[ContextTurn]) -> str:
    """Return the id of a context, as `generate_shared_context_id` of the authors' inference.py computes it."""
    return sha256(" ".join(str({"role": turn.role, "content": turn.content}) for turn in turns).encode()).hexdigest()


def read_rows(path: Path, contexts: Mapping[str, Sequence[ContextTurn]]) -> list[Row]:
    """Return the questions in file order.

    Raises:
        DataError: the file cannot be read, a field is missing or invalid, or a context is not among `contexts`.
    """
    reader = csv.DictReader(io.StringIO(_read(path), newline=""))
    if missing := set(FIELDS) - set(reader.fieldnames or ()):
        raise DataError(f"The file lacks the columns {', '.join(sorted(missing))}", where=str(path))
    return [_row(f"{path}, row {number}", record, contexts) for number, record in enumerate(reader, start=1)]


def _row(where: str, record: Mapping[str, str], contexts: Mapping[str, Sequence[ContextTurn]]) -> Row:
    try:
        options = ast.literal_eval(record["all_options"])
        lettered = [option[:4] for option in options] == [f"({letter}) " for letter in LETTERS]
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        lettered, options = False, ()
    if not lettered:
        raise DataError("The options are not four texts that begin with (a) to (d)", where=f"{where}, all_options")
    letter = record["correct_answer"].strip("()")
    if letter not in tuple(LETTERS):
        raise DataError(f"{record['correct_answer']!r} is not one of (a) to (d)", where=f"{where}, correct_answer")
    context = contexts.get(record["shared_context_id"])
    if context is None:
        what = f"There is no context {record['shared_context_id'][:12]} in the file of contexts"
        raise DataError(what, where=f"{where}, shared_context_id", fix="Take both files from one release")
    end = record["end_index_in_shared_context"]
    if not end.isdecimal() or not 0 < int(end) <= len(context):
        what = f"{end!r} is not a number of turns of a context with {len(context)}"
        raise DataError(what, where=f"{where}, end_index_in_shared_context")
    return Row(
        persona_id=record["persona_id"],
        question_id=record["question_id"],
        question_type=record["question_type"],
        text=record["user_question_or_message"],
        letter=letter,
        options=tuple(options),
        context_id=record["shared_context_id"],
        end=int(end),
    )


def _read(path: Path) -> str:
    with reading("The data set file", path, kind=DataError):
        return read_text(path)
