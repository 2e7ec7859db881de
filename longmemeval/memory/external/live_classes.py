"""The classes that were handed over as objects, by the name they have as memories."""

LIVE = "class:"
LIVE_CLASSES: dict[str, type] = {}
