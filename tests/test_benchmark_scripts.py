"""What the benchmark scripts import is there; nothing else runs them."""

import ast
import importlib
from pathlib import Path

import pytest

from tests.support import ROOT

SCRIPTS = sorted((ROOT / "scripts" / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_imports_are_there(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("longmemeval"):
            module = importlib.import_module(node.module)
            for one in node.names:
                if not hasattr(module, one.name):
                    importlib.import_module(f"{node.module}.{one.name}")
