"""What `compare` shows: tables with their cells ready to print, and the sentences around them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from string import ascii_uppercase

from longmemeval.evaluation.judges.standing import judge_name
from longmemeval.evaluation.metrics import Score
from longmemeval.evaluation.power import DISCORDANT
from longmemeval.pipeline.compare.baseline import AgainstBaseline
from longmemeval.pipeline.compare.compare import points
from longmemeval.pipeline.compare.comparison import COMMON_ONLY, Comparison, PairResult, QuestionRow, RunFigures
from longmemeval.report.effort_tables import cost_table, effort_notes, latency_table, ms
from longmemeval.report.published import PublishedFigure
from longmemeval.report.summary import ORACLE_NOTE, footnotes
from longmemeval.report.table import Table
from longmemeval.report.tables import UNKNOWN, dollars, interval, percent

_ALL_PAIRS = 10
"""Up to so many pairs all are shown; of more, those with the first run."""
_NARROW = 16
"""Longer names of question types take two lines."""
_LONG_ID = 30
"""Longer run ids would break the tables."""
ALIKE = "Minimum detectable difference: not known, as these runs score alike on every question."


def comparison_tables(comparison: Comparison) -> Iterator[Table]:
    """All tables of a comparison that have rows. Runs with long ids go by letters, which the notes explain."""
    summaries, names = [run.summary for run in comparison.runs], [_name(run) for run in comparison.runs]
    tables = (
        _runs(comparison),
        _types(comparison),
        _pairs(comparison),
        _lost(comparison),
        cost_table(summaries, names),
        latency_table(summaries, names),
        _repeats(comparison),
    )
    labels = _letters(comparison)
    for table in tables:
        if table.rows:
            rows = [[_with_letters(cell, labels) for cell in row] for row in table.rows]
            yield Table(table.title, table.columns, rows, table.left)


def _letters(comparison: Comparison) -> dict[str, str]:
    """Run id to letter, the longest ids first; none where all ids are short enough for a column."""
    ids = [run.summary.run_id for run in comparison.runs]
    if max(map(len, ids)) <= _LONG_ID or len(ids) > len(ascii_uppercase):
        return {}
    letters = dict(zip(ids, ascii_uppercase, strict=False))
    return {run_id: letters[run_id] for run_id in sorted(letters, key=len, reverse=True)}


def _with_letters(text: str, letters: Mapping[str, str]) -> str:
    for run_id, letter in letters.items():
        text = text.replace(run_id, letter)
    return text


def _metric(comparison: Comparison) -> str:
    return comparison.runs[0].summary.metrics.judge.metric


def _name(run: RunFigures) -> str:
    """The run's id, with what makes it another kind of figure."""
    summary = run.summary
    remarks = ["reads gold"] if summary.reads_gold else []
    remarks += [summary.status] if summary.status != "completed" else []
    return summary.run_id + (f"\n({', '.join(remarks)})" if remarks else "")


def _runs(comparison: Comparison) -> Table:
    shown: list[tuple[str, Callable[[RunFigures], str]]] = [("run", _name), ("memory", lambda run: run.summary.memory)]
    for heading, text in _SETTINGS:
        if len({text(run) for run in comparison.runs}) > 1:
            shown.append((heading, text))
    texts = len(shown)
    shown += [
        (f"{_metric(comparison)},\n95 % interval", _score),
        ("not\nevaluated", lambda run: str(run.summary.metrics.overall.not_evaluated)),
        ("evidence\nrecall", lambda run: UNKNOWN if run.evidence_recall is None else percent(run.evidence_recall)),
        ("prompt\ntokens", lambda run: _rounded(run.summary.mean_prompt_tokens)),
        ("cost", lambda run: dollars(run.summary.costs.total.usd)),
        ("latency\np50, ms", lambda run: ms(run.summary.latency.total.p50)),
    ]
    judge = judge_name(comparison.runs[0].summary.metrics.judge)
    return Table(
        title=f"{comparison.dataset}, {question_count(comparison)}, judge {judge}",
        columns=[heading for heading, _ in shown],
        rows=[[text(run) for _, text in shown] for run in comparison.runs],
        left=frozenset(range(texts)),
    )


def question_count(comparison: Comparison) -> str:
    """How many questions are compared; of how many and how they were chosen, where that is not the whole data set."""
    summary = comparison.runs[0].summary
    if any(warning.startswith(COMMON_ONLY) for warning in comparison.warnings):
        return f"{len(comparison.questions):,} common questions"
    return summary.part or f"{len(comparison.questions):,} questions"


_SETTINGS: tuple[tuple[str, Callable[[RunFigures], str]], ...] = (
    ("model", lambda run: run.summary.model),
    ("reading", lambda run: run.reading or "-"),
    ("embedder", lambda run: run.summary.embedder or "-"),
)
"""Columns that are shown where the runs differ in them."""


def _score(run: RunFigures) -> str:
    overall = run.summary.metrics.overall
    return f"{run.marks} {percent(overall.accuracy)} {interval(overall)}".lstrip()


def _rounded(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _types(comparison: Comparison) -> Table:
    names = list(dict.fromkeys(name for run in comparison.runs for name in run.summary.metrics.by_type))

    def cell(score: Score | None) -> str:
        return "-" if score is None else f"{score.accuracy * 100:.1f}\n{interval(score)}"

    sizes = {name: score.n for run in comparison.runs for name, score in run.summary.metrics.by_type.items()}
    return Table(
        title=f"By question type, {_metric(comparison)} in percent",
        columns=["run", *(f"{_broken(name)}\nn {sizes[name]:,}" for name in names)],
        rows=[
            [_name(run), *(cell(run.summary.metrics.by_type.get(name)) for name in names)] for run in comparison.runs
        ],
    )


def _broken(name: str) -> str:
    """A long name on two lines."""
    head, hyphen, tail = name.rpartition("-")
    return f"{head}{hyphen}\n{tail}" if hyphen and len(name) > _NARROW else name


def _pairs(comparison: Comparison) -> Table:
    pairs = _shown_pairs(comparison)
    labels = any(pair.mcnemar for pair in pairs)
    # Where questions share haystacks another test decides; McNemar's stands beside it.
    beside = any(pair.mcnemar and pair.mcnemar.p != pair.p for pair in pairs)
    tests = sorted({pair.test for pair in pairs})
    discordant = ["only a", "only b", *(["McNemar\np"] if beside else [])] if labels else []
    columns = ["a", "b", "a - b,\npoints", "95 %\ninterval", *discordant, "p", "p,\nHolm", "verdict"]
    left = frozenset({0, 1, len(columns) - 1})
    return Table(f"Pairs ({', '.join(tests)})", columns, [_pair_row(pair, labels, beside) for pair in pairs], left)


def _shown_pairs(comparison: Comparison) -> Sequence[PairResult]:
    if len(comparison.pairs) <= _ALL_PAIRS:
        return comparison.pairs
    first = comparison.runs[0].summary.run_id
    return [pair for pair in comparison.pairs if pair.a == first]


def _pair_row(pair: PairResult, labels: bool, beside: bool) -> list[str]:
    one = pair.mcnemar
    counts = [str(one.a_only), str(one.b_only), _p(one.p)] if one else ["-", "-", "-"]
    if not beside:
        counts.pop()
    return [
        pair.a,
        pair.b,
        f"{pair.difference * 100:+.1f}",
        _points_interval(pair.interval),
        *(counts if labels else ()),
        _p(pair.p),
        _p(pair.p_holm),
        pair.verdict,
    ]


def _points_interval(bounds: tuple[float, float]) -> str:
    return f"[{bounds[0] * 100:+.1f}, {bounds[1] * 100:+.1f}]"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _lost(comparison: Comparison) -> Table:
    lost = [(_name(run), run.lost) for run in comparison.runs]
    stages = list(dict.fromkeys(stage for _, counts in lost for stage in counts))
    return Table(
        title="Where wrongly answered questions were lost",
        columns=["run", *stages],
        rows=[[name, *(str(counts.get(stage, 0)) for stage in stages)] for name, counts in lost] if stages else [],
    )


def _repeats(comparison: Comparison) -> Table:
    rows = []
    for group in comparison.repeats:
        spread = group.spread
        sd = "-" if spread.sd is None else f"{spread.sd * 100:.2f}"
        extremes = f"{percent(spread.lowest)} to {percent(spread.highest)}"
        rows.append([group.name, ", ".join(group.run_ids), percent(spread.mean), sd, extremes])
    columns = ["configuration", "runs", f"mean\n{_metric(comparison)}", "sd between\nruns, points", "lowest to highest"]
    return Table("Repeats: spread between runs, beside the sampling of questions", columns, rows, frozenset({0, 1}))


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """What has to be said under the tables."""
    letters = _letters(comparison)
    yield from sorted(f"{letter}: {run_id}" for run_id, letter in letters.items())
    for note in _notes(comparison):
        yield _with_letters(note, letters)


def _notes(comparison: Comparison) -> Iterator[str]:
    yield detectable_line(comparison)
    if any(run.marks for run in comparison.runs):
        yield f"▲ ▼: significantly better or worse than {comparison.runs[0].summary.run_id} (p after Holm below 0.05)."
    if (pairs := len(comparison.pairs)) > len(_shown_pairs(comparison)):
        yield f"Shown are the pairs with the first run; all {pairs}, for which Holm adjusts, are under --json."
    summaries = [run.summary for run in comparison.runs]
    yield from (note for note in footnotes(summaries) if note != ORACLE_NOTE)
    yield from effort_notes(summaries)
    yield from comparison.warnings


def detectable_line(comparison: Comparison) -> str:
    """The smallest difference these questions can show, and what that is based on."""
    metrics = comparison.runs[0].summary.metrics
    n = f"{metrics.overall.n:,} question{'' if metrics.overall.n == 1 else 's'}"
    shared = f" over {metrics.haystacks:,} haystacks" if metrics.haystacks else ""
    if comparison.detectable is None:
        return f"Minimum detectable difference: none. With {n}{shared} no difference can be shown, however large."
    if not comparison.detectable:
        return ALIKE
    assumed = f"assuming that two runs part on {DISCORDANT * 100:.0f} % of them"
    basis = "by how far these runs part" if comparison.pairs else assumed
    return f"Minimum detectable difference: {points(comparison.detectable)} ({n}{shared}, 80 % power, {basis})."


def question_lists(comparison: Comparison) -> Iterator[tuple[str, list[str]]]:
    """For each run against the first: which questions it wins, loses, and both get wrong; ids in the data's order."""
    first, *others = (run.summary.run_id for run in comparison.runs)
    for place, run_id in enumerate(others, start=1):
        found: dict[str, list[str]] = {"won": [], "lost": [], "both wrong": []}
        for row in comparison.questions:
            if outcome := _outcome(row, place):
                found[outcome].append(row.question_id)
        for outcome, ids in found.items():
            yield f"{run_id} against {first}, {outcome}", ids


def _outcome(row: QuestionRow, place: int) -> str:
    base, own = row.credits[0] or 0.0, row.credits[place] or 0.0
    if own != base:
        return "won" if own > base else "lost"
    return "both wrong" if own < 1 else ""


def against_line(result: AgainstBaseline) -> str:
    """One run and its baseline in one sentence."""
    verdict = "worse" if result.worse else "not worse"
    settings = "" if result.same_settings else "; other settings"
    return (
        f"{result.run} against {result.baseline}: {result.difference * 100:+.1f} points, 95 % interval "
        f"{_points_interval(result.interval)}, margin {points(result.margin)}: {verdict} ({len(result.won)} questions "
        f"won, {len(result.lost)} lost{settings})."
    )


def published_table(figures: Sequence[PublishedFigure]) -> Table:
    """What others have published, apart from one's own figures; what repeats the row above is left empty."""
    rows = []
    for before, figure in zip((None, *figures), figures, strict=False):
        n = "-" if figure.n is None else f"{figure.n:,}"
        system = figure.system + (f" ({figure.note})" if figure.note else "")
        origin = [n, figure.variant, figure.judge, figure.source]
        if before and _origin(before) == _origin(figure):
            origin = [""] * len(origin)
        rows.append([system, figure.reader or "-", _published_value(figure), *origin])
    return Table(
        title="Published, graded by others, not comparable unless judge and data are the same",
        columns=["system", "reader", "figure", "n", "data", "judge", "source"],
        rows=rows,
        left=frozenset({0, 1, 2, 4, 5, 6}),
    )


def _origin(figure: PublishedFigure) -> tuple[int | None, str, str, str]:
    return figure.n, figure.variant, figure.judge, figure.source


def _published_value(figure: PublishedFigure) -> str:
    whole = "" if figure.value is None else f"{figure.metric} {percent(figure.value)}"
    parts = ", ".join(f"{name} {value * 100:.1f}" for name, value in figure.by_group.items())
    if not parts:
        return whole
    return f"{whole}\n{parts}" if whole else f"{figure.metric}: {parts}"
