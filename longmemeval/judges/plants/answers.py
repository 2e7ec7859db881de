"""The planting of benchmarks whose golds are answers."""

from collections.abc import Collection, Iterator
from random import Random

from longmemeval.judges.plants.planting import KINDS, Ground, Made, Make, Planting
from longmemeval.records import Gold, Question


def answer_planting(described: Collection[str] = (), without: Collection[str] = (), judged_in: str = "") -> Planting:
    """Return the planting for golds that are answers.

    Args:
        described: question types whose golds describe answers instead; they get wrong plants only.
        without: kinds to leave out, since the benchmark's own judge may rightly decide either way.
        judged_in: data set of the benchmark that is shipped with answers labelled by hand.
    """
    kinds = {name: kind for name, kind in KINDS.items() if name not in without}

    def on(ground: Ground) -> Make:
        # Imported here: its patterns take longer to compile than most data takes to open.
        from longmemeval.judges.plants.answer_plants import AnswerPlants

        make = AnswerPlants(ground, described).of

        def plants(question: Question, gold: Gold, random: Random) -> Iterator[Made]:
            return (answer for answer in make(question, gold, random) if answer.kind in kinds)

        return plants

    return Planting(on, kinds, judged_in=judged_in)
