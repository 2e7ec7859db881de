"""Answers as readers give them, labelled by hand: a file beside the data set that they answer.

For rules that compare words (`JudgeDefinition.compares_words`) planted answers are too easy, so a judge of such rules
also grades these, and its scores are corrected by them alone. Rules are made with some of them at hand; only those
that are held out measure the judge.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from longmemeval.core.text_files import UnreadableError, decode_json, reading
from longmemeval.errors import DataError, nearest
from longmemeval.judges.plants.planting import Kind, Plant
from longmemeval.records import Gold

JUDGED_FILE = "judged_answers.jsonl"
"""Name of the file, in the folder of the data."""

JUDGED_KINDS: dict[str, Kind] = {
    "stated": Kind(True, "the answer in a sentence"),
    "other spelling": Kind(True, "its number, date or unit in another form"),
    "other words": Kind(True, "the same in other words"),
    "old value rejected": Kind(True, "the answer, and another value that it rejects"),
    "working shown": Kind(True, "the answer after the facts and sums that lead to it"),
    "one off": Kind(True, "a number of days or weeks that the benchmark forgives"),
    "hedged": Kind(True, "the answer, not quite certain"),
    "justified refusal": Kind(True, "an unanswerable question is declined"),
    "neighbouring value": Kind(False, "a value of another matter in the history"),
    "stale value": Kind(False, "the value before an update"),
    "two values": Kind(False, "the right value and another, undecided"),
    "part of the answer": Kind(False, "some items of a list or sum"),
    "too much counted": Kind(False, "an item that does not belong"),
    "value near the right one": Kind(False, "a number or date a little off"),
    "right value denied": Kind(False, "the right value, as what is not so"),
    "value of a difference": Kind(False, "the right amount, as a difference"),
    "wrong order": Kind(False, "the right items in another order"),
    "no value": Kind(False, "the topic, and no answer"),
    "preference ignored": Kind(False, "advice against the preference"),
    "unjustified refusal": Kind(False, "an answerable question is declined"),
    "guess after a refusal": Kind(False, "a guess after declining"),
    "invented answer": Kind(False, "an unanswerable question gets an answer"),
}
"""Kinds of judged answers, right ones first, named by how readers err."""


class JudgedAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the file."""

    question_id: str
    answer: str
    correct: bool
    kind: str
    """Kind of right or wrong answer."""
    held_out: bool = False
    """True if no rule of a judge was made with it at hand."""


def has_judged(data: Path) -> bool:
    """Return whether there are judged answers beside the file of a data set."""
    return data.with_name(JUDGED_FILE).is_file()


def judged_plants(data: Path, golds: Mapping[str, Gold], chosen: Collection[str]) -> Iterator[Plant]:
    """Yield the answers in the file beside `data` as plants; none without a file.

    Args:
        data: file of a data set.
        golds: its golds by question id.
        chosen: ids of the questions whose answers are wanted.

    Raises:
        DataError: a line is not a judged answer.
    """
    if not has_judged(data):
        return
    path = data.with_name(JUDGED_FILE)
    with reading("The judged answers", path, "have a line that is not a judged answer", kind=DataError):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                judged = decode_json(line, JudgedAnswer)
            except UnreadableError as error:
                raise UnreadableError(f"line {number}: {error}") from error
            if judged.kind not in JUDGED_KINDS or JUDGED_KINDS[judged.kind].right != judged.correct:
                side = "right" if judged.correct else "wrong"
                kinds = [name for name, kind in JUDGED_KINDS.items() if kind.right == judged.correct]
                raise UnreadableError(
                    f"line {number}: '{judged.kind}' is not a kind of {side} answer{nearest(judged.kind, kinds)}"
                )
            if judged.question_id in chosen:
                yield Plant(
                    plant_id=f"{judged.question_id}:judged:{number}",
                    question_id=judged.question_id,
                    question_type=golds[judged.question_id].question_type,
                    kind=judged.kind,
                    right=judged.correct,
                    text=judged.answer,
                    made_by="written and labelled by hand",
                    judged="held out" if judged.held_out else "at hand",
                )
