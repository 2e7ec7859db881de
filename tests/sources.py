"""The syntax of the package's modules, parsed once for all tests of a worker."""

import ast
from functools import cache
from pathlib import Path

from tests.support import ROOT

PACKAGE = ROOT / "longmemeval"


@cache
def nodes(path: Path) -> list[ast.AST]:
    """Return all of a module's syntax."""
    return list(ast.walk(ast.parse(path.read_text())))
