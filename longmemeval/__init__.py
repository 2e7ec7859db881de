"""longmemeval: a benchmark harness for memory systems of LLM agents.

`load_dataset` loads data, `run` answers its questions with a memory, `evaluate` grades a run and `compare` tests the
differences between runs. Each name is imported on first use, so that `import longmemeval` is fast.
"""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longmemeval.api.claims import try_claim as try_claim
    from longmemeval.api.data import Data as Data
    from longmemeval.api.data import Memory as Memory
    from longmemeval.api.data import load_dataset as load_dataset
    from longmemeval.api.run import Run as Run
    from longmemeval.api.run import arun as arun
    from longmemeval.api.run import evaluate as evaluate
    from longmemeval.api.run import run as run
    from longmemeval.api.run import runs as runs
    from longmemeval.api.verbs import bridge_judges as bridge_judges
    from longmemeval.api.verbs import check_judge as check_judge
    from longmemeval.api.verbs import compare as compare
    from longmemeval.api.verbs import demo as demo
    from longmemeval.api.verbs import download_dataset as download_dataset
    from longmemeval.api.verbs import export as export
    from longmemeval.api.verbs import import_answers as import_answers
    from longmemeval.api.verbs import import_chats as import_chats
    from longmemeval.api.verbs import inspect as inspect
    from longmemeval.api.verbs import make_board as make_board
    from longmemeval.api.verbs import merge as merge
    from longmemeval.api.verbs import prepare as prepare
    from longmemeval.api.verbs import probe as probe
    from longmemeval.api.verbs import retrieve as retrieve
    from longmemeval.api.verbs import sign as sign
    from longmemeval.api.verbs import verify as verify
    from longmemeval.errors import HarnessError as HarnessError
    from longmemeval.judges.offline.refusal import abstains as abstains
    from longmemeval.llm.options import ModelOptions as ModelOptions
    from longmemeval.llm.rates import RateLimits as RateLimits
    from longmemeval.memory.engram import Engram as Engram
    from longmemeval.pipeline.compare.comparison import Comparison as Comparison
    from longmemeval.pipeline.options import BatchOptions as BatchOptions
    from longmemeval.pipeline.options import EvaluateOptions as EvaluateOptions
    from longmemeval.pipeline.options import PrepareOptions as PrepareOptions
    from longmemeval.pipeline.options import RetrievalOptions as RetrievalOptions
    from longmemeval.pipeline.run.plan import RunOptions as RunOptions
    from longmemeval.pipeline.sweep.sweep import sweep as sweep
    from longmemeval.reading.configuration import reading_configuration as reading_configuration
    from longmemeval.report.options import ReportOptions as ReportOptions
    from longmemeval.report.write import render_report as render_report
    from longmemeval.report.write import write_report as write_report
    from longmemeval.results.graded.graded_run import Evaluation as Evaluation
    from longmemeval.settings import Folders as Folders
    from longmemeval.settings import folders as folders

__version__ = "0.2.0"

_EXPORTED = {
    "api.claims": "try_claim",
    "api.data": "Data load_dataset Memory",
    "api.run": "arun evaluate Run run runs",
    "api.verbs": (
        "bridge_judges check_judge compare demo download_dataset export import_answers import_chats inspect "
        "make_board merge prepare probe retrieve sign verify"
    ),
    "errors": "HarnessError",
    "judges.offline.refusal": "abstains",
    "llm.options": "ModelOptions",
    "llm.rates": "RateLimits",
    "memory.engram": "Engram",
    "pipeline.compare.comparison": "Comparison",
    "pipeline.options": "BatchOptions EvaluateOptions PrepareOptions RetrievalOptions",
    "pipeline.run.plan": "RunOptions",
    "pipeline.sweep.sweep": "sweep",
    "reading.configuration": "reading_configuration",
    "report.options": "ReportOptions",
    "report.write": "render_report write_report",
    "results.graded.graded_run": "Evaluation",
    "settings": "Folders folders",
}
"""Public names by the module that defines them."""
_HOMES = {name: module for module, names in _EXPORTED.items() for name in names.split()}

__all__ = list(_HOMES)


class _OldNames:
    """Finds modules by the names that they had in version 0.2; asked only for those that Python does not find."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith("longmemeval."):
            return None
        from longmemeval.core.moved import old_module

        return old_module(name)


sys.meta_path.append(_OldNames)


if not TYPE_CHECKING:  # Otherwise every misspelt name would have a type.

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            import_module("longmemeval.api")  # Says how the objects show themselves.
            found = getattr(import_module(f"longmemeval.{_HOMES[name]}"), name)
            # The next access finds it directly, without this function.
            globals()[name] = found
            return found
        raise AttributeError(f"module 'longmemeval' has no attribute '{name}'")
