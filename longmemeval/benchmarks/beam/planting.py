"""The kinds of answers to BEAM's questions that are known to be right or wrong; `plants.py` makes them."""

from longmemeval.core.on_demand import on_demand
from longmemeval.judges.plants.plant import SAID_OF_NOTHING, Kind
from longmemeval.judges.plants.planting import Planting

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

PLANTING = Planting(
    on=on_demand("longmemeval.benchmarks.beam.plants:planted_on"),
    kinds=KINDS,
    graded_by=on_demand("longmemeval.benchmarks.beam.plants:graded_by"),
)
