"""longmemeval: an honest harness for memory systems of LLM agents.

From Python: `load_dataset` gives data, `run` answers its questions by a memory, `evaluate` grades a run and `compare`
says what may be said. Each is imported when it is first used, so that `import longmemeval` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from longmemeval.errors import HarnessError
    from longmemeval.judges.offline.refusal import abstains
    from longmemeval.llm.options import ModelOptions
    from longmemeval.llm.rates.limits import RateLimits
    from longmemeval.memory.engram import Engram
    from longmemeval.pipeline.batches.options import BatchOptions
    from longmemeval.pipeline.claims.attempt import try_claim
    from longmemeval.pipeline.compare.comparison import Comparison
    from longmemeval.pipeline.evaluate.options import EvaluateOptions
    from longmemeval.pipeline.objects.data import Data, load_dataset
    from longmemeval.pipeline.objects.memory import Memory
    from longmemeval.pipeline.objects.more_verbs import (
        check_judge,
        demo,
        download_dataset,
        export,
        import_answers,
        import_chats,
        inspect,
        make_board,
        merge,
        sign,
        verify,
    )
    from longmemeval.pipeline.objects.run import Run, evaluate, runs
    from longmemeval.pipeline.objects.running import arun, run
    from longmemeval.pipeline.objects.verbs import compare, prepare, probe, retrieve
    from longmemeval.pipeline.prepare.options import PrepareOptions
    from longmemeval.pipeline.retrieval.options import RetrievalOptions
    from longmemeval.pipeline.run.run import RunOptions
    from longmemeval.pipeline.sweep.sweep import sweep
    from longmemeval.reading.configuration import reading_configuration
    from longmemeval.report.options import ReportOptions
    from longmemeval.report.write import render_report, write_report
    from longmemeval.results.graded.graded_run import Evaluation
    from longmemeval.settings import Folders, folders

__version__ = "0.2.0"

_HOMES = {
    "BatchOptions": "pipeline.batches.options",
    "Comparison": "pipeline.compare.comparison",
    "Data": "pipeline.objects.data",
    "Engram": "memory.engram",
    "EvaluateOptions": "pipeline.evaluate.options",
    "Evaluation": "results.graded.graded_run",
    "Folders": "settings",
    "HarnessError": "errors",
    "Memory": "pipeline.objects.memory",
    "ModelOptions": "llm.options",
    "PrepareOptions": "pipeline.prepare.options",
    "RateLimits": "llm.rates.limits",
    "ReportOptions": "report.options",
    "RetrievalOptions": "pipeline.retrieval.options",
    "Run": "pipeline.objects.run",
    "RunOptions": "pipeline.run.run",
    "abstains": "judges.offline.refusal",
    "arun": "pipeline.objects.running",
    "check_judge": "pipeline.objects.more_verbs",
    "compare": "pipeline.objects.verbs",
    "demo": "pipeline.objects.more_verbs",
    "download_dataset": "pipeline.objects.more_verbs",
    "evaluate": "pipeline.objects.run",
    "export": "pipeline.objects.more_verbs",
    "folders": "settings",
    "import_answers": "pipeline.objects.more_verbs",
    "import_chats": "pipeline.objects.more_verbs",
    "inspect": "pipeline.objects.more_verbs",
    "load_dataset": "pipeline.objects.data",
    "make_board": "pipeline.objects.more_verbs",
    "merge": "pipeline.objects.more_verbs",
    "prepare": "pipeline.objects.verbs",
    "probe": "pipeline.objects.verbs",
    "reading_configuration": "reading.configuration",
    "render_report": "report.write",
    "retrieve": "pipeline.objects.verbs",
    "run": "pipeline.objects.running",
    "runs": "pipeline.objects.run",
    "sign": "pipeline.objects.more_verbs",
    "sweep": "pipeline.sweep.sweep",
    "try_claim": "pipeline.claims.attempt",
    "verify": "pipeline.objects.more_verbs",
    "write_report": "report.write",
}

__all__ = [
    "BatchOptions",
    "Comparison",
    "Data",
    "Engram",
    "EvaluateOptions",
    "Evaluation",
    "Folders",
    "HarnessError",
    "Memory",
    "ModelOptions",
    "PrepareOptions",
    "RateLimits",
    "ReportOptions",
    "RetrievalOptions",
    "Run",
    "RunOptions",
    "abstains",
    "arun",
    "check_judge",
    "compare",
    "demo",
    "download_dataset",
    "evaluate",
    "export",
    "folders",
    "import_answers",
    "import_chats",
    "inspect",
    "load_dataset",
    "make_board",
    "merge",
    "prepare",
    "probe",
    "reading_configuration",
    "render_report",
    "retrieve",
    "run",
    "runs",
    "sign",
    "sweep",
    "try_claim",
    "verify",
    "write_report",
]


_GONE = {
    "MemoryConfiguration": "Memory('hybrid', top_k=20)",
    "Selection": "load_dataset('longmemeval_s').sample(50, seed=0)",
    "compare_runs": "compare(evaluation, another)",
    "resolve_configuration": "Memory('hybrid', top_k=20)",
}
"""Names that 0.2 exported, with what takes their place."""


if not TYPE_CHECKING:  # Else every misspelt name would have a type.

    def __getattr__(name: str) -> object:
        if name in _HOMES:
            found = getattr(import_module(f"longmemeval.{_HOMES[name]}"), name)
            # Next time it is found directly, without this function.
            globals()[name] = found
            return found
        if name in _GONE:
            from longmemeval.errors import HarnessError

            raise HarnessError(f"longmemeval.{name} was of 0.2", fix=f"Write {_GONE[name]}")
        raise AttributeError(f"module 'longmemeval' has no attribute '{name}'")
