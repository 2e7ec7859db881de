"""A planted answer, and the kinds of plants for golds that are answers."""

from typing import Literal

from msgspec import Struct


class Kind(Struct, frozen=True):
    """A way to construct an answer that is known to be right or wrong."""

    right: bool
    what: str
    """Short description for tables."""


SAID_OF_NOTHING: dict[str, Kind] = {
    "instruction": Kind(False, "an instruction to the judge, and no answer"),
    "empty": Kind(False, "nothing"),
    "cut": Kind(False, "an answer that breaks off before it says anything"),
}
"""Kinds that are no answer to any question."""

NO_ANSWERS = frozenset({*SAID_OF_NOTHING, "dump"})
"""Kinds that count in no rate: systems rarely make the former errors, and a dump contains the answer without giving it,
so a judge whose prompt accepts any text that contains the answer may pass it."""

KINDS: dict[str, Kind] = {
    "gold": Kind(True, "the gold answer as it is"),
    "polite": Kind(True, "the gold inside a long, polite answer"),
    "other-form": Kind(True, "the gold with its date, number or unit in another form"),
    "reordered": Kind(True, "the items of the gold's list in another order"),
    "declines": Kind(True, "an unanswerable question is declined"),
    "other-question": Kind(False, "the gold of another question of the same type and kind"),
    "changed-number": Kind(False, "the gold with another number"),
    "changed-date": Kind(False, "the gold with another day, month or year"),
    "changed-name": Kind(False, "the gold with another name"),
    "changed-polarity": Kind(False, "yes for no, no for yes"),
    "topical": Kind(False, "a sentence of the haystack on the topic that does not answer"),
    "superseded": Kind(False, "the value before the update that the question is about"),
    "both": Kind(False, "the gold and a wrong value side by side"),
    "refusal": Kind(False, "an answerable question is declined"),
    "vague": Kind(False, "words of the question, and nothing that answers it"),
    "answers-unanswerable": Kind(False, "an unanswerable question gets an answer"),
    "dump": Kind(False, "what was said in the evidence session, up to 300 words of it, and nothing else"),
    **SAID_OF_NOTHING,
}
"""The kinds for golds that are answers, right ones first. Other benchmarks add kinds of their own."""


class Plant(Struct, frozen=True, omit_defaults=True):
    """An answer known to be right or wrong by construction."""

    plant_id: str
    """Question id and kind."""
    question_id: str
    question_type: str
    kind: str
    right: bool
    text: str
    made_by: str
    """How the plant was made, for people who read the file: `3 -> 5`, the id of the other question, and so on."""
    parts: tuple[int, ...] = ()
    """Indexes, from 0, of the parts of the gold (such as nuggets) that grade it; empty: the whole gold grades it."""
    judged: Literal["", "at hand", "held out"] = ""
    """Origin: written and labelled by people, with rules made at hand of it or not; empty: made by rules."""
