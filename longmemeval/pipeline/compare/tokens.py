"""Compare how many tokens the memories show the answering model: a warning if that differs, and curves over budgets."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from longmemeval.pipeline.compare.comparison import RunFigures
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.scores.warnings import ScoreWarning

UNEQUAL = 1.5
"""The largest ratio of two memories' mean prompt tokens that gives no warning."""


class BudgetCurve(Struct, frozen=True):
    """One memory under several token budgets, with all other settings the same."""

    name: str
    runs: tuple[int, ...]
    """Positions of the runs in the comparison, the smallest budget first."""
    budgets: tuple[int, ...]


def with_token_warnings(graded: Sequence[Evaluation], names: Mapping[str, str]) -> list[Evaluation]:
    """Return the runs, adding the warning `unequal-tokens` to those whose prompts differ too much in length.

    Controls are left out. If some budget is shared by several runs, runs are checked only against those with the same
    budget: a curve over budgets is meant to differ.
    """
    budgets = {run.manifest.run_id: budget_of(run) for run in graded}
    within = any(list(budgets.values()).count(budget) > 1 for budget in budgets.values() if budget)
    groups: dict[int | None, list[Evaluation]] = {}
    for run in graded:
        if run.summary.control is None and run.summary.mean_prompt_tokens:
            groups.setdefault(budgets[run.manifest.run_id] if within else None, []).append(run)
    warning = {
        run.manifest.run_id: text for group in groups.values() if (text := _unequal(group, names)) for run in group
    }
    return [_warned(run, warning[run.manifest.run_id]) if run.manifest.run_id in warning else run for run in graded]


def _unequal(group: Sequence[Evaluation], names: Mapping[str, str]) -> str:
    tokens = {run.manifest.run_id: run.summary.mean_prompt_tokens or 0 for run in group}
    least, most = min(tokens, key=tokens.__getitem__), max(tokens, key=tokens.__getitem__)
    times = tokens[most] / tokens[least]
    if times <= UNEQUAL:
        return ""
    return (
        f"Mean prompt length differs {times:.1f}-fold ({tokens[least]:,.0f} tokens in {names[least]}, "
        f"{tokens[most]:,.0f} in {names[most]}), which alone can change scores. Use `run --budget TOKENS`."
    )


def _warned(run: Evaluation, text: str) -> Evaluation:
    warnings = (*run.summary.warnings, ScoreWarning("unequal-tokens", text))
    return structs.replace(run, summary=structs.replace(run.summary, warnings=warnings))


def budget_of(run: Evaluation) -> int | None:
    """Return the budget of a run's memory; None if it has none or is unknown."""
    memory = run.manifest.settings.memory
    budget = memory.parameters.get("budget") if memory else None
    return budget if isinstance(budget, int) else None


def budget_curves(runs: Sequence[RunFigures]) -> list[BudgetCurve]:
    """Return a curve for each memory, model and reading that was run under more than one budget."""
    alike: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for place, run in enumerate(runs):
        if run.budget:
            name = run.summary.memory.replace(f" budget={run.budget}", "")
            alike.setdefault((name, run.summary.model, run.reading), []).append((run.budget, place))
    curves = []
    for (name, *_), points in alike.items():
        budgets = tuple(dict.fromkeys(budget for budget, _ in sorted(points)))
        if len(budgets) > 1:
            curves.append(BudgetCurve(name, tuple(place for _, place in sorted(points)), budgets))
    return curves
