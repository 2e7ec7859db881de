"""A planted answer, and the kinds there are."""

from typing import Literal

from msgspec import Struct

RightKind = Literal["gold", "polite", "other-form", "reordered", "declines"]
WrongKind = Literal[
    "other-question",
    "changed-number",
    "changed-date",
    "changed-name",
    "changed-polarity",
    "topical",
    "superseded",
    "both",
    "refusal",
    "answers-unanswerable",
    "instruction",
    "empty",
    "cut",
]
Kind = RightKind | WrongKind

KINDS: dict[Kind, str] = {
    "gold": "the gold answer as it is",
    "polite": "the gold inside a long, polite answer",
    "other-form": "the gold with its date, number or unit in another form",
    "reordered": "the items of the gold's list in another order",
    "declines": "an unanswerable question is declined",
    "other-question": "the gold of another question of the same type and kind",
    "changed-number": "the gold with another number",
    "changed-date": "the gold with another day, month or year",
    "changed-name": "the gold with another name",
    "changed-polarity": "yes for no, no for yes",
    "topical": "a sentence of the haystack on the topic that does not answer",
    "superseded": "the value before the update that the question is about",
    "both": "the gold and a wrong value side by side",
    "refusal": "an answerable question is declined",
    "answers-unanswerable": "an unanswerable question gets an answer",
    "instruction": "an instruction to the judge, and no answer",
    "empty": "nothing",
    "cut": "an answer that breaks off before it says anything",
}
"""What each kind is, right ones first."""

NO_ANSWERS: frozenset[Kind] = frozenset({"instruction", "empty", "cut"})
"""Kinds that are no answer at all. No system errs by these as a rule, so they do not count among its wrong answers."""


class Plant(Struct, frozen=True):
    """An answer whose truth is known by how it was made."""

    plant_id: str
    """Question id and kind."""
    question_id: str
    question_type: str
    kind: Kind
    right: bool
    text: str
    made_by: str
    """What was done to make it, for whoever reads the file: `3 -> 5`, the id of the other question, and so on."""
