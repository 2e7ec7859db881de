"""Which tests the fast tier (`scripts/test --fast`) leaves out: those that begin processes or servers, or are marked.

Nobody has to mark a test that begins something: it is found in the test itself, in the fixtures it asks for and in the
helpers of its module. `@pytest.mark.slow` is for the rest.
"""

import ast
from functools import cache
from pathlib import Path

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
    uses: dict[str, set[str]] = {}
    imported: set[str] = {"real_longmemeval"}
    other_names: set[str] = set()
    for path in [*(folder / "conftest.py" for folder in reversed(file.parents)), file]:
        if not path.exists() or "tests" not in path.parts:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                uses[node.name] = _names(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                imported.update(one.asname or one.name for one in node.names)
                # Under whatever name it is called here.
                other_names.update(one.asname for one in node.names if one.asname and one.name in BEGINNERS)
    found: set[str] = set()
    reached = BEGINNERS & imported | other_names
    while more := {name for name, used in uses.items() if name not in found and used & reached}:
        found |= more
        reached |= more
    return frozenset(found)


def _names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    nodes = list(ast.walk(function))
    arguments = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return arguments | {node.id for node in nodes if isinstance(node, ast.Name)}
