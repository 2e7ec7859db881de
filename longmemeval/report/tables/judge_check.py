"""Show the result of `judge check`, as a table and the sentences below it."""

from collections.abc import Callable, Iterator

from longmemeval.benchmarks.specs import BENCHMARK_SPECS
from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, count_of, percent
from longmemeval.judges.official_status import judge_name
from longmemeval.judges.plants.plant import NO_ANSWERS
from longmemeval.measures.plant_rates import Rate
from longmemeval.results.graded.judge_checks import JudgeCheck


def check_table(check: JudgeCheck) -> Table:
    """Return a row for each kind of planted answer, right ones first, and a row for each group as a whole."""
    rates, labels = check.rates, check.judge.metric == "accuracy"
    planting = BENCHMARK_SPECS.get(check.benchmark).planting
    kinds = planting.kinds if planting else {}
    groups: tuple[tuple[str, str, Rate, Callable[[str], bool]], ...] = (
        ("right answers", "should pass", rates.right, lambda name: kinds[name].right),
        ("wrong answers", "should fail", rates.wrong, lambda name: not kinds[name].right and name not in NO_ANSWERS),
        ("no answers", "should fail", rates.none, lambda name: name in NO_ANSWERS),
    )
    rows = []
    for name, what, whole, belongs in groups:
        rows.append((name, what, whole))
        rows += [
            (f"  {name}", kind.what, rates.by_kind[name])
            for name, kind in kinds.items()
            if belongs(name) and name in rates.by_kind
        ]
    credit = "passed" if labels else f"mean\n{check.judge.metric}"
    title = f"{check.dataset['name']}, {count_of(check.questions, 'question')}, judge {judge_name(check.judge)}"
    columns: list[Column[tuple[str, str, Rate]]] = [
        Column("plants", lambda row: row[0], "text"),
        Column("", lambda row: row[1], "prose"),
        Column(credit, lambda row: percent(row[2].credit)),
        Column("95 % interval", lambda row: UNKNOWN if row[2].credit is None else bounds(row[2].interval)),
        Column("n", lambda row: row[2].n),
        Column("no\nlabel", lambda row: row[2].unlabelled, drop=1),
    ]
    return tabulate(title, columns, rows)


def check_notes(check: JudgeCheck, *, unlike: bool) -> Iterator[str]:
    """Yield what follows for the judge's scores.

    Args:
        unlike: True if right plants are shown to fare better than wrong ones.
    """
    right, wrong = check.rates.right, check.rates.wrong
    if right.credit is None or wrong.credit is None:
        yield "Without both right and wrong plants that have a label, nothing follows for scores."
        return
    if check.judge.metric == "accuracy":
        yield (
            f"False negatives {percent(1 - right.credit)} (right answers failed), false positives "
            f"{percent(wrong.credit)} (wrong answers passed)."
        )
    half = right.credit * 0.5 + wrong.credit * 0.5
    effect = f"A system that is right on half of the questions gets {percent(half)} from this judge"
    if not unlike:
        yield f"{effect}; right and wrong answers are not shown to fare differently: its scores cannot be corrected."
    else:
        yield f"{effect}; a difference of two systems shrinks to {(right.credit - wrong.credit) * 100:.0f} % of itself."
    if one_sided := [name for name, (right, wrong) in check.rates.by_type.items() if not (_any(right) and _any(wrong))]:
        yield (
            f"Right or wrong answers alone could be planted for {', '.join(one_sided)}: they are in the rows of their "
            "kinds, but not in the rates of right and wrong answers, and their scores are corrected by the rates of "
            "the other types."
        )
    yield (
        "The rates are those of plants, every kind as often as the questions allow. A system whose errors are of other "
        "kinds meets other rates: look at the rows."
    )


def _any(rate: Rate) -> bool:
    return rate.n + rate.unlabelled > 0
