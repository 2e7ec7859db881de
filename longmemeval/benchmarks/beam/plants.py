"""Answers to BEAM's questions known to be right or wrong: nuggets stated and left out, events in order and reversed.

A nugget is a statement after a phrase such as `LLM response should mention: …`. An answer that makes the statement
complies with it. That is not so if a nugget describes the reply (`step-by-step breakdown`): questions with such a
nugget, and all questions of the two abilities that ask for compliance, get only wrong answers.
"""

import re
from collections.abc import Iterator, Sequence
from random import Random

import msgspec

from longmemeval.benchmarks.beam.judge import ORDERING
from longmemeval.benchmarks.beam.loader import BeamGold
from longmemeval.core.text.words import content_words
from longmemeval.judges.offline.refusal import abstains
from longmemeval.judges.plants.answer_plants import polite, sentence
from longmemeval.judges.plants.forms import amounts_in, names_several, near, with_other_date, with_other_number
from longmemeval.judges.plants.planting import DECLINES, Ground, Made, Make, Plant, non_answers
from longmemeval.records import Gold, Question

COMPLIANCE = frozenset({"instruction_following", "preference_following"})
_ANSWERS = "information_extraction"
"""The ability whose answers serve as made-up answers."""
_SHORT = 5
"""Maximum words of a nugget that is little more than its value: with another value, no part of it is complied with."""

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
"""A first word such as `mentions`: the nugget then describes the reply."""


def statement(nugget: str) -> str | None:
    """Return the statement that a nugget requires, without its opening phrase; None if it describes the reply."""
    text = _FRAME.sub("", nugget).strip()
    return None if not text or _OF_THE_REPLY.search(text) or _VERB.match(text) else text


def planted_on(ground: Ground) -> Make:
    """Return the maker of the plants of one dataset."""
    stated = {name: _statements(gold) for name, gold in ground.golds.items() if isinstance(gold, BeamGold)}

    def others(gold: BeamGold, ability: str, random: Random) -> tuple[str, str] | None:
        """Return the nuggets of another question without a content word of this one's, and its id."""
        all_of_it = " ".join([*gold.rubric, str(gold.answer)])
        own, numbers = set(content_words(all_of_it)), amounts_in(all_of_it)
        free = [
            (sentence_of(statements), name)
            for name, statements in stated.items()
            if statements
            and ground.golds[name].question_type == ability
            and not own & set(content_words(" ".join(statements)))
            and not near(numbers, amounts_in(" ".join(statements)))
        ]
        return random.choice(free) if free else None

    def make(question: Question, gold: Gold, random: Random) -> Iterator[Made]:
        if not isinstance(gold, BeamGold):
            return
        statements = stated[gold.question_id]
        if gold.question_type == ORDERING:
            yield from _ordered(statements)
            return
        if statements:
            yield Made("nuggets", sentence_of(statements))
            yield Made("polite", polite(sentence_of(statements), random))
            yield from _in_part(statements)
        if gold.abstention:
            yield Made("declines", random.choice(DECLINES))
        else:
            yield from _changed(statements, random)
            if not any(map(abstains, gold.rubric)):
                yield Made("refusal", random.choice(DECLINES))
        kind = "answers-unanswerable" if gold.abstention else "other-question"
        if other := others(gold, _ANSWERS if gold.abstention else gold.question_type, random):
            yield Made(kind, other[0], f"nuggets of {other[1]}")
        yield from non_answers(random)

    return make


def sentence_of(statements: Sequence[str]) -> str:
    """Return statements as consecutive sentences."""
    return " ".join(sentence(text[:1].upper() + text[1:]) for text in statements)


def _statements(gold: BeamGold) -> list[str]:
    """Return the statements of all nuggets; none if one of them describes the reply."""
    statements = [] if gold.question_type in COMPLIANCE else [statement(nugget) for nugget in gold.rubric]
    return [text for text in statements if text] if all(statements) else []


def _ordered(statements: Sequence[str]) -> Iterator[Made]:
    """Yield answers about an order, which score 1 and 0 if the lines are compared correctly, and between otherwise.

    Lines are numbered, since the authors' code counts a line that equals a nugget byte for byte, whatever the judge
    says about it.
    """
    if (
        len(statements) > 1
        and len(set(map(str.lower, statements))) == len(statements)
        and not any("\n" in text for text in statements)
    ):
        yield Made("in-order", _numbered(statements))
        yield Made("reversed", _numbered(statements[::-1]))


def _numbered(lines: Sequence[str]) -> str:
    return "\n".join(f"{place}. {line}" for place, line in enumerate(lines, start=1))


def _in_part(statements: Sequence[str]) -> Iterator[Made]:
    """Yield one answer that leaves out nuggets, graded once by those it states and once by those it leaves out.

    Nuggets after the first are left out if they share no word with any other, so that the rest contains no part of
    them.
    """
    words = [set(content_words(text)) for text in statements]
    alone = [
        place
        for place in range(1, len(statements))
        if words[place] and not any(words[place] & other for at, other in enumerate(words) if at != place)
    ]
    stated = tuple(place for place in range(len(statements)) if place not in alone)
    if alone:
        text = sentence_of([statements[place] for place in stated])
        yield Made("answered", text, f"{len(stated)} of {len(statements)} nuggets", stated)
        yield Made("left-out", text, f"{len(alone)} of {len(statements)} nuggets", tuple(alone))


def _changed(statements: Sequence[str], random: Random) -> Iterator[Made]:
    if len(statements) != 1 or len(statements[0].split()) > _SHORT or names_several(statements[0]):
        return
    if number := with_other_number(statements[0], (), random):
        yield Made("changed-number", *number)
    if (date := with_other_date(statements[0], random)) and len(content_words(statements[0])) == 1:
        yield Made("changed-date", *date)


def graded_by(gold: Gold, plant: Plant) -> Gold:
    """Return the gold with the nuggets that grade the plant."""
    if not isinstance(gold, BeamGold) or not plant.parts:
        return gold
    return msgspec.structs.replace(gold, rubric=tuple(gold.rubric[place] for place in plant.parts))
