"""PersonaMem: 589 questions with four options about 37 contexts, each cut at the point of the question."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from longmemeval.benchmarks.in_memory import InMemoryDataset
from longmemeval.benchmarks.personamem.files import ContextTurn, Row, files_in, read_contexts, read_rows
from longmemeval.core.files import sha256_file
from longmemeval.core.text.calendar_names import stand_in_date
from longmemeval.errors import DataError
from longmemeval.records import Gold, Haystack, Question, Session, Turn

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
