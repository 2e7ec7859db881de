"""Which tests the fast tier (`scripts/test --fast`) leaves out: those that begin processes or servers, or are marked.

Nobody has to mark a test that begins something: it is found in the test itself, in the fixtures it asks for and in the
helpers of its module. `@pytest.mark.slow` is for the rest.
"""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

BEGINNERS = frozenset(
    {
        "BatchServer",
        "DaskCluster",
        "EmbeddingServer",
        "ModelServer",
        "ProcessPoolExecutor",
        "RayCluster",
        "install",
        "longmemeval",
        "longmemeval_anew",
        "minilm_folder",
        "real_longmemeval",
        "s3_bucket",
        "sample_demo",
        "sample_prepared",
        "start",
        "start_forked",
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


@cache
def _beginning(file: Path) -> frozenset[str]:
    """The functions and fixtures of a module that begin something, by themselves or through each other."""
    uses: dict[str, frozenset[str]] = {}
    imported: set[str] = {"real_longmemeval"}
    other_names: set[str] = set()
    for path in [*(folder / "conftest.py" for folder in reversed(file.parents)), file]:
        if "tests" in path.parts and path.exists():
            module = _module(path)
            uses |= module.uses
            imported |= module.imported
            other_names |= module.other_names
    found: set[str] = set()
    reached = BEGINNERS & imported | other_names
    while more := {name for name, used in uses.items() if name not in found and used & reached}:
        found |= more
        reached |= more
    return frozenset(found)


class _Module(NamedTuple):
    """What stands in a module: its functions with the names they use, and what it imports."""

    uses: dict[str, frozenset[str]]
    imported: frozenset[str]
    other_names: frozenset[str]
    """Of what begins something, under whatever name it is called here."""


@cache
def _module(path: Path) -> _Module:
    uses: dict[str, frozenset[str]] = {}
    names: list[ast.alias] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            uses[node.name] = _names(node)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names += node.names
    other_names = frozenset(one.asname for one in names if one.asname and one.name in BEGINNERS)
    return _Module(uses, frozenset(one.asname or one.name for one in names), other_names)


def _names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """The names in a function, of its arguments too."""
    nodes = ast.walk(function)
    return frozenset(
        node.arg if isinstance(node, ast.arg) else node.id for node in nodes if isinstance(node, ast.arg | ast.Name)
    )
