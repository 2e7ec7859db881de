"""Objects of Python users: a dataset with its selection, a memory, runs; and the verbs that use them."""

from types import ModuleType

from longmemeval.core.tables.showing import register_renderer


def _renderer() -> ModuleType:
    from longmemeval.api import renderer

    return renderer


register_renderer(_renderer)
