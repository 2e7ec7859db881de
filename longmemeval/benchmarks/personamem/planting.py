"""Answers, known to be right or wrong, to questions with options."""

from collections.abc import Iterator
from random import Random

from longmemeval.judges.plants.plant import SAID_OF_NOTHING, Kind
from longmemeval.judges.plants.planting import Ground, Made, Make, Planting, non_answers
from longmemeval.records import Gold, Question

KINDS = {
    "letter": Kind(True, "the letter of the right option"),
    "final": Kind(True, "other letters, and the right one as the final answer"),
    "other-letter": Kind(False, "the letter of another option"),
    "two-letters": Kind(False, "the right letter and another side by side"),
    **SAID_OF_NOTHING,
}


def _on(ground: Ground) -> Make:
    def make(question: Question, gold: Gold, random: Random) -> Iterator[Made]:
        right = str(gold.answer)[:3]
        other = random.choice([option[:3] for option in question.options if option[:3] != right])
        yield Made("letter", f"<final_answer> {right}")
        yield Made("final", f"It is {other} or {right}.\n<final_answer>{right}</final_answer>")
        yield Made("other-letter", f"<final_answer> {other}")
        yield Made("two-letters", f"<final_answer> {right} or {other}")
        yield from non_answers(random)

    return make


PLANTING = Planting(on=_on, kinds=KINDS)
