"""longmemeval: an honest harness for memory systems of LLM agents.

The verbs of the command line, from Python: `load_dataset`, `prepare`, `run`, `evaluate`, `retrieve`, `compare`,
`sweep`. Each is imported when it is first used, so that `import longmemeval` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longmemeval.benchmarks.registry import load_dataset
    from longmemeval.judges.offline.refusal import abstains
    from longmemeval.memory.configuration import MemoryConfiguration, resolve_configuration
    from longmemeval.memory.engram import Engram
    from longmemeval.pipeline.compare.compare import compare, compare_runs
    from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
    from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
    from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
    from longmemeval.pipeline.run.run import RunOptions, run
    from longmemeval.pipeline.sweep.sweep import sweep
    from longmemeval.reading.reader import reading_configuration
    from longmemeval.report.write import ReportOptions, render_report, write_report
    from longmemeval.results.selection import Selection
    from longmemeval.settings import folders

__version__ = "0.2.0"

__all__ = [
    "Engram",
    "EvaluateOptions",
    "MemoryConfiguration",
    "PrepareOptions",
    "ReportOptions",
    "RetrievalOptions",
    "RunOptions",
    "Selection",
    "abstains",
    "compare",
    "compare_runs",
    "evaluate",
    "folders",
    "load_dataset",
    "prepare",
    "reading_configuration",
    "render_report",
    "resolve_configuration",
    "retrieve",
    "run",
    "sweep",
    "write_report",
]

_HOMES = {
    "Engram": "memory.engram",
    "load_dataset": "benchmarks.registry",
    "abstains": "judges.offline.refusal",
    "MemoryConfiguration": "memory.configuration",
    "resolve_configuration": "memory.configuration",
    "compare": "pipeline.compare.compare",
    "compare_runs": "pipeline.compare.compare",
    "EvaluateOptions": "pipeline.evaluate.evaluate",
    "evaluate": "pipeline.evaluate.evaluate",
    "PrepareOptions": "pipeline.prepare.prepare",
    "prepare": "pipeline.prepare.prepare",
    "RetrievalOptions": "pipeline.retrieval.retrieve",
    "retrieve": "pipeline.retrieval.retrieve",
    "RunOptions": "pipeline.run.run",
    "run": "pipeline.run.run",
    "Selection": "results.selection",
    "sweep": "pipeline.sweep.sweep",
    "reading_configuration": "reading.reader",
    "ReportOptions": "report.write",
    "render_report": "report.write",
    "write_report": "report.write",
    "folders": "settings",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        found = getattr(import_module(f"longmemeval.{_HOMES[name]}"), name)
        if not isinstance(found, type):
            from longmemeval.core.arguments import checked

            found = checked(found)
        # Next time it is found directly, without this function.
        globals()[name] = found
        return found
    raise AttributeError(f"module 'longmemeval' has no attribute '{name}'")
