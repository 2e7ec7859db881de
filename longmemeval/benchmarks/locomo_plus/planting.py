"""The kinds of answers to LoCoMo-Plus's questions that are known to be right or wrong; `plants.py` makes them."""

from longmemeval.core.on_demand import on_demand
from longmemeval.judges.plants.plant import SAID_OF_NOTHING, Kind
from longmemeval.judges.plants.planting import Planting

KINDS = {
    "linked": Kind(True, "a reply that quotes the cue"),
    "retold": Kind(True, "a reply that says the cue in the words of the one who heard it"),
    "linked-late": Kind(True, "a long reply that comes to the cue at its end"),
    "other-cue": Kind(False, "a reply linked to the cue of another item"),
    "general": Kind(False, "a reply that anybody could give"),
    "forgets": Kind(False, "a reply that says it knows of nothing"),
    **SAID_OF_NOTHING,
}

PLANTING = Planting(
    on=on_demand("longmemeval.benchmarks.locomo_plus.plants:planted_on"),
    kinds=KINDS,
)
