"""Classes that were passed as objects, by their names as memories."""

LIVE = "class:"
LIVE_CLASSES: dict[str, type] = {}
