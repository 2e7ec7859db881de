"""Answers of known truth for BEAM: nuggets stated and left out, events in order and in reverse.

A nugget is a statement behind a frame (`LLM response should mention: …`). An answer that makes the statement complies
with it. That does not hold where a nugget describes the reply (`step-by-step breakdown`): questions with such a nugget,
and all of the two abilities that ask for compliance, get wrong answers alone.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from longmemeval.benchmarks.beam.judge import ORDERING
from longmemeval.benchmarks.beam.loader import BeamGold
from longmemeval.core.text.words import content_words
from longmemeval.judges.offline.refusal import abstains
from longmemeval.judges.plants.answers import polite, sentence
from longmemeval.judges.plants.forms import amounts_in, names_several, near, with_other_date, with_other_number
from longmemeval.judges.plants.plant import SAID_OF_NOTHING, Kind, Plant
from longmemeval.judges.plants.planting import DECLINES, Ground, Made, Make, Planting, said_of_nothing
from longmemeval.records import Gold, Question

KINDS = {
    "nuggets": Kind(True, "every nugget is stated"),
    "polite": Kind(True, "every nugget is stated inside a long, polite answer"),
    "answered": Kind(True, "nuggets that are stated, where others are left out"),
    "in-order": Kind(True, "the events in their order, a line each"),
    "declines": Kind(True, "an unanswerable question is declined"),
    "left-out": Kind(False, "nuggets that are left out, where others are stated"),
    "other-question": Kind(False, "the nuggets of another question of the same ability"),
    "changed-number": Kind(False, "the one nugget with another number"),
    "changed-date": Kind(False, "the one nugget with another day, month or year"),
    "reversed": Kind(False, "the events in reverse order, a line each"),
    "refusal": Kind(False, "an answerable question is declined"),
    "answers-unanswerable": Kind(False, "an unanswerable question gets an answer"),
    **SAID_OF_NOTHING,
}
COMPLIANCE = frozenset({"instruction_following", "preference_following"})
_ANSWERS = "information_extraction"
"""The ability whose answers stand for made-up ones."""
_SHORT = 5
"""Words of a nugget that is hardly more than its value: with another one nothing of it is left to comply with."""

_WHO = r"(?:the )?(?:(?:llm|model|assistant)(?:'s)? )?(?:response|answer|reply|assistant|model|llm)"
_FRAME = re.compile(
    rf"^\s*{_WHO} (?:should|must|needs to|has to|ought to) (?:\w+ly )?"
    r"(?:contain|convey|indicate|include|mention|note|say|specify|state)s?(?: that)?\s*:?\s*",
    re.IGNORECASE,
)
_OF_THE_REPLY = re.compile(
    rf"\b{_WHO}\b|\bshould (?:not )?(?:include|mention|contain|be)\b|^(?:avoid|do not|no)\b", re.I
)
_VERB = re.compile(r"(?!as |always |its |this |us |was |has |is )[a-z]+[^s\W]s\b")
"""A first word such as `mentions`: the nugget then tells what the reply does."""


def statement(nugget: str) -> str | None:
    """Return what a nugget has an answer state, without its frame; None where it describes the answer instead."""
    text = _FRAME.sub("", nugget).strip()
    return None if not text or _OF_THE_REPLY.search(text) or _VERB.match(text) else text


def _on(ground: Ground) -> Make:
    stated = {name: _statements(gold) for name, gold in ground.golds.items() if isinstance(gold, BeamGold)}

    def others(gold: BeamGold, ability: str, random: Random) -> tuple[str, str] | None:
        """Return the nuggets of another question that have no content word of this one's, and its id."""
        all_of_it = " ".join([*gold.rubric, str(gold.answer)])
        own, numbers = set(content_words(all_of_it)), amounts_in(all_of_it)
        free = [
            (sentence_of(said), name)
            for name, said in stated.items()
            if said
            and ground.golds[name].question_type == ability
            and not own & set(content_words(" ".join(said)))
            and not near(numbers, amounts_in(" ".join(said)))
        ]
        return random.choice(free) if free else None

    def make(question: Question, gold: Gold, random: Random) -> Iterator[Made]:
        if not isinstance(gold, BeamGold):
            return
        said = stated[gold.question_id]
        if gold.question_type == ORDERING:
            yield from _ordered(said)
            return
        if said:
            yield Made("nuggets", sentence_of(said))
            yield Made("polite", polite(sentence_of(said), random))
            yield from _in_part(said)
        if gold.abstention:
            yield Made("declines", random.choice(DECLINES))
        else:
            yield from _changed(said, random)
            if not any(map(abstains, gold.rubric)):
                yield Made("refusal", random.choice(DECLINES))
        kind = "answers-unanswerable" if gold.abstention else "other-question"
        if other := others(gold, _ANSWERS if gold.abstention else gold.question_type, random):
            yield Made(kind, other[0], f"nuggets of {other[1]}")
        yield from said_of_nothing(random)

    return make


def sentence_of(statements: Sequence[str]) -> str:
    """Return statements as sentences, one after another."""
    return " ".join(sentence(one[:1].upper() + one[1:]) for one in statements)


def _statements(gold: BeamGold) -> list[str]:
    """Return the statements of all nuggets; none where one of them describes the answer."""
    found = [] if gold.question_type in COMPLIANCE else [statement(one) for one in gold.rubric]
    return [one for one in found if one] if all(found) else []


def _ordered(said: Sequence[str]) -> Iterator[Made]:
    """Make answers about an order: these two score 1 and 0 where the lines are compared rightly, others in between.

    Lines are numbered: the authors' code counts what is a nugget byte for byte, whatever the judge says of it.
    """
    if len(said) > 1 and len(set(map(str.lower, said))) == len(said) and not any("\n" in one for one in said):
        yield Made("in-order", _numbered(said))
        yield Made("reversed", _numbered(said[::-1]))


def _numbered(lines: Sequence[str]) -> str:
    return "\n".join(f"{place}. {line}" for place, line in enumerate(lines, start=1))


def _in_part(said: Sequence[str]) -> Iterator[Made]:
    """Make one answer that leaves out nuggets, graded by what it states and by what it leaves out.

    Left out are nuggets behind the first that share no word with any other, so that nothing of them is in the rest.
    """
    words = [set(content_words(one)) for one in said]
    alone = [
        place
        for place in range(1, len(said))
        if words[place] and not any(words[place] & other for at, other in enumerate(words) if at != place)
    ]
    kept = tuple(place for place in range(len(said)) if place not in alone)
    if alone:
        text = sentence_of([said[place] for place in kept])
        yield Made("answered", text, f"{len(kept)} of {len(said)} nuggets", kept)
        yield Made("left-out", text, f"{len(alone)} of {len(said)} nuggets", tuple(alone))


def _changed(said: Sequence[str], random: Random) -> Iterator[Made]:
    if len(said) != 1 or len(said[0].split()) > _SHORT or names_several(said[0]):
        return
    if number := with_other_number(said[0], (), random):
        yield Made("changed-number", *number)
    if (date := with_other_date(said[0], random)) and len(content_words(said[0])) == 1:
        yield Made("changed-date", *date)


def _graded_by(gold: Gold, plant: Plant) -> Gold:
    if not isinstance(gold, BeamGold) or not plant.parts:
        return gold
    return msgspec.structs.replace(gold, rubric=tuple(gold.rubric[place] for place in plant.parts))


PLANTING = Planting(_on, KINDS, _graded_by)
