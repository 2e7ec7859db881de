"""PersonaMem: 589 questions with four options about 37 contexts, each cut at the point of the question."""

import ast
import csv
import hashlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.in_memory import InMemoryDataset
from longmemeval.core.files import sha256_file
from longmemeval.core.text.quantities import stand_in_date
from longmemeval.core.text_files import read_text, reading
from longmemeval.errors import DataError
from longmemeval.records import Gold, Haystack, Question, Session, Turn

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
        what = f"Context {record['shared_context_id'][:12]} is missing from the file of contexts"
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
    with reading("The dataset file", path, kind=DataError):
        return read_text(path)


INSTRUCTION = "Which of these replies suits this user best? End with <final_answer> and its letter, such as (a)."
"""The instruction in our words: no copy of the authors' own was available."""


class PersonaMemDataset(InMemoryDataset):
    """A `Dataset` over a folder of PersonaMem.

    A haystack is a context up to a question: its id is `<first 12 digits of the context's id>_<number of turns>`, and
    questions asked at the same point of a context share it. No turn after that point reaches a memory. A session begins
    at each system turn, the persona, which is its first turn: a user turn with the speaker `system`.
    **The data has no dates:** session i gets the stand-in day 2000-01-01 + i days, and the question the day after the
    last.

    Every question carries its four options and an instruction (`Question.appended`); the gold is the option's text with
    its letter. No evidence is labelled.

    Args:
        path: a folder with `questions_<size>.csv` and `shared_contexts_<size>.jsonl` of one size.
        name: the catalogue name; empty: the folder's name.
        persona: False leaves out the persona. The name then ends in `-without-persona`.

    Raises:
        DataError: a file cannot be read or is invalid, or the folder does not have exactly one size.
    """

    def __init__(self, path: Path, name: str = "", persona: bool = True) -> None:
        pairs = files_in(path)
        if len(pairs) != 1:
            what = f"The folder contains {len(pairs) or 'no'} sizes of PersonaMem, not one"
            fix = "Give a folder with questions_<size>.csv and shared_contexts_<size>.jsonl of one size"
            raise DataError(what, where=str(path), fix=fix)
        self._pair = pairs[0]
        contexts = read_contexts(self._pair.contexts)
        self.rows = {row.question_id: row for row in read_rows(self._pair.questions, contexts)}
        """Questions as in the file, by id."""
        haystacks = {_haystack_id(row): _haystack(row, contexts[row.context_id], persona) for row in self.rows.values()}
        super().__init__(
            "personamem",
            path,
            (name or path.absolute().name) + ("" if persona else "-without-persona"),
            haystacks.values(),
            [(_question(row, haystacks[_haystack_id(row)]), _gold(row)) for row in self.rows.values()],
        )
        self.units = {question_id: f"persona {row.persona_id}" for question_id, row in self.rows.items()}
        """Persona by question id: contexts of one persona have mostly the same sessions in different orders."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The two files."""
        return (self._pair.questions, self._pair.contexts)

    @cached_property
    def sha256(self) -> str:
        """Hash of both files' names and hashes, 64 hexadecimal digits."""
        lines = (f"{sha256_file(file)}  {file.name}\n" for file in self.files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def _haystack_id(row: Row) -> str:
    return f"{row.context_id[:12]}_{row.end}"


def _haystack(row: Row, context: Sequence[ContextTurn], persona: bool) -> Haystack:
    sessions: list[list[Turn]] = []
    for turn in context[: row.end]:
        if turn.role == "system":
            sessions.append([Turn("user", turn.content, "system")] if persona else [])
        else:
            if not sessions:
                sessions.append([])
            sessions[-1].append(Turn(turn.role, turn.content))
    # A session that has only just begun contains only the persona, again.
    spoken = [turns for turns in sessions if any(turn.speaker != "system" for turn in turns)]
    dated = (Session(f"s{index}", *stand_in_date(index), tuple(turns)) for index, turns in enumerate(spoken))
    return Haystack(_haystack_id(row), tuple(dated))


def _question(row: Row, haystack: Haystack) -> Question:
    appended = "\n".join(["\n", INSTRUCTION, "", *row.options])
    date = stand_in_date(len(haystack.sessions))
    return Question(row.question_id, row.text, *date, haystack.haystack_id, appended, row.options)


def _gold(row: Row) -> Gold:
    answer = next(option for option in row.options if option.startswith(f"({row.letter})"))
    return Gold(row.question_id, row.question_type, answer, (), (), abstention=False)


class PersonaMemQuirks(Struct):
    """Counts of each oddity."""

    personas: int = 0
    longest_option_is_right: int = 0
    """Questions that the longest option answers correctly, without any history."""
    longest_but_for_ideas_shortest: int = 0
    """Questions answered correctly in this way, with the shortest option for `suggest_new_ideas`."""
    right_text_under_two_letters: int = 0
    """Questions that repeat the text of the right option under another letter; only one letter counts."""
    repeated_rows: int = 0
    """Questions with the context, the text and, in any order, the options of an earlier question."""
    asked_in_the_history: int = 0
    """Questions whose text is a message of their own history."""


def personamem_quirks(dataset: PersonaMemDataset) -> PersonaMemQuirks:
    """Count the oddities."""
    quirks = PersonaMemQuirks(personas=len(set(dataset.units.values())))
    rows = list(dataset.rows.values())
    for row in rows:
        right = next(option for option in row.options if option[1] == row.letter)
        longest = max(row.options, key=len) == right
        shortest = min(row.options, key=len) == right
        quirks.longest_option_is_right += longest
        quirks.longest_but_for_ideas_shortest += shortest if row.question_type == "suggest_new_ideas" else longest
        quirks.right_text_under_two_letters += [option[4:] for option in row.options].count(right[4:]) > 1
    seen = Counter((row.context_id, row.text, frozenset(option[4:] for option in row.options)) for row in rows)
    quirks.repeated_rows = len(rows) - len(seen)
    for question in dataset.questions():
        sessions = dataset.haystack(question.haystack_id).sessions
        texts = {turn.content.removeprefix("User: ") for session in sessions for turn in session.turns}
        quirks.asked_in_the_history += question.text.removeprefix("User: ") in texts
    return quirks
