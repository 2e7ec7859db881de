"""Show the result of `retrieval`: a table per kind of gold, footnotes, and the JSON document."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.benchmarks.retrieval_protocols import OfficialRanking, OfficialScoring, RankedRun
from longmemeval.core.tables.table import Column, Table, tabulate
from longmemeval.core.text.figures import (
    bounds,
    count_of,
    in_percent,
)
from longmemeval.embedding.registry import is_offline_fallback
from longmemeval.measures.notation import Mean, Measure, RetrievalResult
from longmemeval.pipeline.retrieval.ranking_run import RetrievalReport
from longmemeval.report.tables.comparison import FALLBACK_NOTE, ORACLE_NOTE, part_notes, warning_lines
from longmemeval.results.scores.warnings import WARNED


def retrieval_document(report: RetrievalReport) -> dict[str, object]:
    """Return the document that `retrieval --json` prints; means are fractions, None if no question has a value."""
    results = [
        {
            "memory": result.memory,
            "protocol": result.protocol,
            "granularity": result.granularity,
            "gold": result.gold_rule,
            "denominator": result.denominator,
            "measures": _means(result.measures),
            "by_type": {name: _means(measures) for name, measures in result.by_type.items()},
            "warnings": run.warnings,
            **({"asked_twice": run.asked_twice} if run.asked_twice else {}),
        }
        for run in report.runs
        for result in run.results
    ]
    part = {"part": report.part} if report.part else {}
    return {"dataset": report.dataset, **part, "results": results}


def _means(measures: Mapping[str, Mean]) -> dict[str, float | None]:
    return {name: mean.mean for name, mean in measures.items()}


def retrieval_tables(report: RetrievalReport) -> Iterator[Table]:
    """Yield a table per kind of gold and denominator, with a row per memory; a single memory also has one per type."""
    for alike in zip(*(run.results for run in report.runs), strict=True):
        first = alike[0]
        names = _shown(first, report)
        title = f"{report.dataset}, {first.protocol} protocol, {first.granularity} level: {first.gold_rule}"
        rows = [
            _Row(result.memory, result.measures, f" {WARNED}" if run.warnings else "")
            for run, result in zip(report.runs, alike, strict=True)
        ]
        if len(alike) == 1:
            rows += [_Row(f"  {name}", measures) for name, measures in first.by_type.items()]
        part = f"{report.part}; " if report.part else ""
        yield tabulate(f"{title}\n{part}{first.denominator}", _columns(names), rows)


def _shown(result: RetrievalResult, report: RetrievalReport) -> list[str]:
    """Return the names of the measures that get a column."""
    names, protocol = list(result.measures), _official_protocol(report)
    if not isinstance(protocol, OfficialRanking) or not protocol.shown_cutoffs:
        return names
    return [name for name in names if Measure.parse(name).cutoff in protocol.shown_cutoffs]


def _official_protocol(report: RetrievalReport) -> OfficialScoring | OfficialRanking | None:
    return BENCHMARK_SPECS.get(report.benchmark).official_retrieval if report.protocol == "official" else None


class _Row(Struct, frozen=True):
    name: str
    measures: Mapping[str, Mean]
    mark: str = ""


def _columns(names: Sequence[str]) -> list[Column[_Row]]:
    """Return the first measure with its interval, then the others; a narrow table drops the last first."""

    def measure(name: str, drop: int) -> Column[_Row]:
        return Column(_broken(name), lambda row: in_percent(row.measures[name].mean), drop=drop)

    first, *others = names
    return [
        Column("memory", lambda row: row.name, "text"),
        Column("n", lambda row: row.measures[first].n),
        Column(_broken(first), lambda row: in_percent(row.measures[first].mean) + row.mark),
        Column("95% CI", lambda row: bounds(row.measures[first].interval)),
        *(measure(name, place) for place, name in enumerate(others, start=1)),
    ]


def _broken(name: str) -> str:
    return name.replace("@", "\n@")


def retrieval_footnotes(report: RetrievalReport) -> list[str]:
    """Return the notes below the tables."""
    notes = ["All figures in %; n: questions with a value.", *_warnings(report)]
    protocol = _official_protocol(report)
    if isinstance(protocol, OfficialRanking):
        notes += protocol.notes([RankedRun(run.settings.plain, run.questions, run.results) for run in report.runs])
    else:
        notes += protocol.notes if protocol else ()
        notes.append("Ties keep the order of the history. Unranked results follow, newest first.")
    notes.extend(dict.fromkeys(note for run in report.runs for result in run.results for note in result.notes))
    ranked = ((run.settings.memory_name, run.settings.parts) for run in report.runs)
    notes.extend(note for memory, parts in ranked for note in part_notes(memory, parts))
    if any(run.settings.reads_gold for run in report.runs):
        notes.append(ORACLE_NOTE)
    if any(spec and is_offline_fallback(spec) for spec in (run.settings.embedder_spec for run in report.runs)):
        notes.append(FALLBACK_NOTE)
    return notes


def _warnings(report: RetrievalReport) -> Iterator[str]:
    """Yield the warnings, and the result of asking twice if it is not a warning."""
    yield from warning_lines([(run.settings.memory_name, run.warnings) for run in report.runs])
    for run in report.runs:
        repeat = run.asked_twice
        if repeat and not repeat.changed:
            yield f"{run.settings.memory_name}: {repeat.sentence}"
        if report.twice and (number := run.questions - (repeat.n if repeat else 0)):
            left = count_of(number, "question was", "questions were")
            yield f"{run.run_id}: {left} ranked earlier without --twice; use another --run-id to repeat every query."
