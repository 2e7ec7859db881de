"""Repeat the same run, to measure how much the answers of one configuration vary by themselves."""

from longmemeval.llm.costs import SPENDING, limit_beside
from longmemeval.llm.options import SpendingLimit
from longmemeval.pipeline.run.answering import RunReport
from longmemeval.pipeline.run.plan import RunPlan
from longmemeval.pipeline.run.run import execute
from longmemeval.results.manifest import default_run_id
from longmemeval.results.selection import sharded_id


def run_repeats(plan: RunPlan, repeats: int) -> list[RunReport]:
    """Make `repeats` runs of a plan that differ only by the model's own variation, `<run id>-r1` and on.

    `compare` recognises them and reports their spread. Errors are those of `run`; a spending
    limit applies to all of them together.
    """
    results_dir, options = plan.folders.results_dir, plan.options
    base = plan.run_id or default_run_id(results_dir, plan.dataset.name, plan.configuration.name, plan.model)
    run_ids = [sharded_id(f"{base}-r{number}", plan.selection.shard) for number in range(1, repeats + 1)]

    def spending(run_id: str) -> SpendingLimit | None:
        """Return the limit of all repeats together, as it applies to one of them."""
        others = (results_dir / other / SPENDING for other in run_ids if other != run_id)
        return limit_beside(options.spending, others)

    return [
        execute(
            plan.with_options(
                run_id=run_id, repeat=number, spending=spending(run_id), tell=options.tell if number == 1 else None
            )
        )
        for number, run_id in enumerate(run_ids, start=1)
    ]
