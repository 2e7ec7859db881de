"""How much the compared memories show the answering model: a warning where that differs, and curves over budgets."""

from collections.abc import Sequence

from msgspec import Struct, structs

from longmemeval.pipeline.compare.comparison import RunFigures
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.scores.warnings import ScoreWarning

UNEQUAL = 1.5
"""Times by which the prompts of two memories may differ in tokens before that is a warning."""


class BudgetCurve(Struct, frozen=True):
    """One memory, otherwise set up the same, under several budgets of tokens."""

    name: str
    runs: tuple[int, ...]
    """Places of the runs in the comparison, the smallest budget first."""
    budgets: tuple[int, ...]


def with_token_warnings(graded: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the runs, with `unequal-tokens` among the warnings of those whose prompts are not of comparable length.

    Controls are left out, and runs under different budgets are compared with those of their own budget: a curve over
    budgets is to differ.
    """
    budgets = {run.manifest.run_id: budget_of(run) for run in graded}
    within = any(list(budgets.values()).count(one) > 1 for one in budgets.values() if one)
    groups: dict[int | None, list[Evaluation]] = {}
    for run in graded:
        if run.summary.control is None and run.summary.mean_prompt_tokens:
            groups.setdefault(budgets[run.manifest.run_id] if within else None, []).append(run)
    warning = {run.manifest.run_id: text for group in groups.values() if (text := _unequal(group)) for run in group}
    return [_warned(run, warning[run.manifest.run_id]) if run.manifest.run_id in warning else run for run in graded]


def _unequal(group: Sequence[Evaluation]) -> str:
    tokens = {run.manifest.run_id: run.summary.mean_prompt_tokens or 0 for run in group}
    least, most = min(tokens, key=tokens.__getitem__), max(tokens, key=tokens.__getitem__)
    times = tokens[most] / tokens[least]
    if times <= UNEQUAL:
        return ""
    return (
        f"Prompts differ {times:.1f} times in length ({tokens[least]:,.0f} tokens in {least}, {tokens[most]:,.0f} in "
        f"{most}): a memory that shows more may win by that alone. `run --budget TOKENS` gives each the same."
    )


def _warned(run: Evaluation, text: str) -> Evaluation:
    warnings = (*run.summary.warnings, ScoreWarning("unequal-tokens", text))
    return structs.replace(run, summary=structs.replace(run.summary, warnings=warnings))


def budget_of(run: Evaluation) -> int | None:
    """Return the budget of a run's memory; None if it has none, or is not known."""
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
    for (name, *_), found in alike.items():
        budgets = tuple(dict.fromkeys(budget for budget, _ in sorted(found)))
        if len(budgets) > 1:
            curves.append(BudgetCurve(name, tuple(place for _, place in sorted(found)), budgets))
    return curves
