"""Show runs on different benchmarks in one table, by the abilities that question types share. Nothing is compared."""

from collections.abc import Callable, Sequence
from functools import partial

from longmemeval.core.tables.table import Column, Table, letter_of, tabulate
from longmemeval.core.text.figures import UNKNOWN, bounds, percent
from longmemeval.core.text.paths import without_places
from longmemeval.judges.question_types import ABILITIES, OTHER
from longmemeval.judges.template_set import judge_name
from longmemeval.measures.metrics import Metrics, Score
from longmemeval.pipeline.compare.columns import kind_words
from longmemeval.report.tables.comparison import footnotes
from longmemeval.results.graded.graded_run import Evaluation

TITLE = "By ability, across datasets"
_NOTE = "Figures of different data, judges or metrics are not comparable: no difference between columns is tested."
_CELLS = f"Each figure with its 95% CI and n questions; ungraded ones count as wrong. {UNKNOWN}: no question tests it."


def ability_table(graded: Sequence[Evaluation]) -> Table:
    """Return a column per run and a row per ability that any of them tests; each cell has its interval and count."""
    scores = [run.metrics.by_ability for run in graded]
    abilities = [name for name in (*ABILITIES, OTHER) if any(name in by_ability for by_ability in scores)]
    rows: dict[str, Callable[[Metrics], str | int]] = {
        "judge": lambda metrics: "official" if metrics.judge.official else "not official",
        "metric": lambda metrics: metrics.judge.metric,
        "not evaluated": lambda metrics: metrics.overall.not_evaluated,
        "overall": lambda metrics: _cell(metrics.overall),
        **{name: partial(lambda name, metrics: _cell(metrics.by_ability.get(name)), name) for name in abilities},
    }
    columns: list[Column[str]] = [Column("", str, "text")]
    for place, run in enumerate(graded):
        head = f"{letter_of(place)}\n{run.manifest.dataset['name']}"
        columns.append(Column(head, partial(lambda metrics, row: rows[row](metrics), run.metrics)))
    return tabulate(TITLE, columns, rows)


def ability_legend(graded: Sequence[Evaluation]) -> list[str]:
    """Return a line on what each column shows, and a line on which question types test which ability."""
    lines = []
    abilities: dict[str, dict[str, list[str]]] = {}
    for place, run in enumerate(graded):
        summary, judge = run.summary, run.metrics.judge
        what = ", ".join([f"{summary.memory}, {summary.model}", *kind_words(summary)])
        lines.append(f"{letter_of(place)}: {summary.run_id} ({what}; judge: {judge_name(judge)})")
        by_ability = abilities.setdefault(run.asked.benchmark.title, {})
        for ability, types in run.asked.types_by_ability().items():
            by_ability[ability] = list(dict.fromkeys([*by_ability.get(ability, []), *types]))
    for benchmark, by_ability in abilities.items():
        renamed = [name for name in (*ABILITIES, OTHER) if by_ability.get(name, [name]) != [name]]
        if renamed:
            lines.append(f"{benchmark}: " + "; ".join(f"{name} is {', '.join(by_ability[name])}" for name in renamed))
    return lines


def ability_notes(graded: Sequence[Evaluation]) -> list[str]:
    """Return the notes below the table; a note that does not hold for all columns names those it holds for."""
    columns: dict[str, list[str]] = {}
    for place, run in enumerate(graded):
        for note in footnotes([run.summary]):
            columns.setdefault(note, []).append(letter_of(place))
    notes = [
        note if len(letters) == len(graded) else f"{', '.join(letters)}: {note}" for note, letters in columns.items()
    ]
    return [_CELLS, _NOTE, *map(without_places, notes)]


def _cell(score: Score | None) -> str:
    if score is None:
        return UNKNOWN
    missing = f"\n{score.not_evaluated:,} not evaluated" if score.not_evaluated else ""
    return f"{percent(score.accuracy)}\n{bounds(score.interval)}\nn {score.n:,}{missing}"
