"""Which tests are left out: by `scripts/test --fast` those that begin something, else all but one of alike cases.

Nobody has to mark a test that begins something: it is found in the test itself, in the fixtures it asks for and in the
helpers that it uses, in whatever module of the tests they stand. `@pytest.mark.slow` is for the rest.
"""

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

BEGINNERS = frozenset(
    {
        "EmbeddingServer",
        "ModelServer",
        "ProcessPoolExecutor",
        "install",
        "longmemeval",
        "minilm_folder",
        "s3_bucket",
        "subprocess",
        "sync_playwright",
    }
)
"""Names of what begins a process or a server, or reads much; where they are imported."""


def begins_something(file: Path, test: str) -> bool:
    """Whether the function `test` of a test module begins a process or a server.

    Args:
        file: the module.
        test: the function's name, without parameters.
    """
    return test in _beginning(file)


def later_variants(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return the cases of tests marked `variants`, but for the first case of each."""
    first: dict[tuple[Path, str], pytest.Item] = {}
    marked = [item for item in items if item.get_closest_marker("variants")]
    for item in marked:
        first.setdefault((item.path, item.nodeid.partition("[")[0]), item)
    return set(marked) - set(first.values())


@cache
def _beginning(file: Path) -> frozenset[str]:
    """What begins something in a test module: its functions and fixtures, those of its conftests, what it imports."""
    conftests = [folder / "conftest.py" for folder in reversed(file.parents) if "tests" in folder.parts]
    return _reached([*filter(Path.exists, conftests), file])


@cache
def _beginning_in(name: str) -> frozenset[str]:
    """What begins something in a module of helpers, by its name with dots."""
    path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
    return _reached([path]) if path.exists() else frozenset()


def _reached(paths: list[Path]) -> frozenset[str]:
    """The names in modules that begin something, by themselves or through each other."""
    modules = [_module(path) for path in paths]
    uses = {name: used for module in modules for name, used in module.uses.items()}
    reached = {"real_longmemeval"} | {
        here
        for module in modules
        for source, name, here in module.imported
        if name in BEGINNERS or (source.startswith("tests.") and name in _beginning_in(source))
    }
    while more := {name for name, used in uses.items() if name not in reached and used & reached}:
        reached |= more
    return frozenset(reached)


class _Module(NamedTuple):
    """What stands in a module: its functions and classes with the names they use, and what it imports."""

    uses: dict[str, frozenset[str]]
    imported: list[tuple[str, str, str]]
    """From which module (empty: a module itself), what, and what it is called here."""


@cache
def _module(path: Path) -> _Module:
    found = _Module({}, [])
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.uses[node.name] = _names(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            source = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            found.imported.extend((source, one.name, one.asname or one.name) for one in node.names)
    return found


def _names(definition: ast.stmt) -> frozenset[str]:
    """The names in a function or class, of its arguments too."""
    nodes = ast.walk(definition)
    return frozenset(
        node.arg if isinstance(node, ast.arg) else node.id for node in nodes if isinstance(node, ast.arg | ast.Name)
    )
