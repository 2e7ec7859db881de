"""Tables of `retrieval`, `probe`, `claims`, `runs` and `status`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS
from longmemeval.benchmarks.retrieval_protocols import OfficialRanking, OfficialScoring, RankedRun
from longmemeval.core.tables.table import Column, Kind, Table, tabulate
from longmemeval.core.text.figures import (
    UNKNOWN,
    bounds,
    count,
    count_of,
    duration,
    in_dollars,
    in_percent,
    ms,
    percent,
    span,
)
from longmemeval.embedding.registry import is_offline_fallback
from longmemeval.measures.notation import Mean, Measure, RetrievalResult
from longmemeval.pipeline.claims.catalogue import Claim, ClaimSettings, answering_cost
from longmemeval.pipeline.claims.state import State
from longmemeval.pipeline.claims.verdict import Attempt, ClaimFinding, ClaimVerdict, figures
from longmemeval.pipeline.compare.columns import WARNED
from longmemeval.pipeline.probe.lifecycle import Lifecycle
from longmemeval.pipeline.probe.probe import Probed, ProbeReport
from longmemeval.pipeline.retrieval.ranking_run import RetrievalReport
from longmemeval.pipeline.status import PreparationState, RunState, ScoreSoFar, Work
from longmemeval.report.tables.comparison import FALLBACK_NOTE, ORACLE_NOTE, part_notes, warning_lines

# Show the result of `retrieval`: a table per kind of gold, footnotes, and the JSON document.


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
        Column("95 % interval", lambda row: bounds(row.measures[first].interval)),
        *(measure(name, place) for place, name in enumerate(others, start=1)),
    ]


def _broken(name: str) -> str:
    return name.replace("@", "\n@")


def retrieval_footnotes(report: RetrievalReport) -> list[str]:
    """Return the notes below the tables."""
    notes = ["Figures in percent; n: questions with a value.", *_warnings(report)]
    protocol = _official_protocol(report)
    if isinstance(protocol, OfficialRanking):
        notes += protocol.notes([RankedRun(run.settings.plain, run.questions, run.results) for run in report.runs])
    else:
        notes += protocol.notes if protocol else ()
        notes.append(
            "Ties: in the order of the history. What a memory recalls without ranking it follows, newest first."
        )
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
            yield f"{run.run_id}: {left} ranked before without --twice; another --run-id asks them all twice."


# Show the result of `probe`: a row per memory, a column per probe.

_CONTROLS = {"floor": " (floor)", "ceiling": " (ceiling)"}


def probe_table(report: ProbeReport) -> Table:
    """Return the table: questions passed out of those asked, by probe, or unknown."""
    probes = list(dict.fromkeys(name for probed in report.memories for name in probed.probes))
    columns = [
        Column("memory", row_name, "text"),
        Column("passed,\n%", lambda probed: in_percent(probed.overall.mean)),
        Column("95 % interval", lambda probed: bounds(probed.overall.interval), drop=1),
        *map(_probe, probes),
        Column("dele-\ntion", lambda probed: passed(probed.lifecycle.deletion)),
        Column("read after\nwrite", lambda probed: passed(probed.lifecycle.read_after_write)),
        Column("until\nfound", lambda probed: until_found(probed.lifecycle), drop=3),
        Column("same\ntwice, %", lambda probed: in_percent(probed.same_twice), drop=2),
    ]
    memories = sum(probed.control is None for probed in report.memories)
    title = f"{report.questions:,} questions about made-up lives, seed {report.seed}"
    return tabulate(title, columns, report.memories, breaks=[memories])


def row_name(probed: Probed) -> str:
    """Return the name of a memory, with what it is a control for."""
    return probed.memory + (_CONTROLS[probed.control] if probed.control else "")


def _probe(name: str) -> Column[Probed]:
    # Two lines let all probes fit into 80 columns.
    return Column(name.replace(" ", "\n", 1), lambda probed: passed(probed.probes.get(name)))


def until_found(lifecycle: Lifecycle) -> str:
    """Return how long a statement takes to be found: time, or the messages that must follow it."""
    if not lifecycle.read_after_write:
        return UNKNOWN
    if lifecycle.further_messages is None:
        return "never"
    if lifecycle.further_messages:
        return count_of(lifecycle.further_messages, "message")
    return f"{ms(lifecycle.found_after_ms)} ms"


def passed(mean: Mean | None) -> str:
    """Return how many questions were passed out of how many."""
    return UNKNOWN if mean is None or mean.mean is None else f"{round(mean.mean * mean.n)}/{mean.n}"


# Show published figures as claims: the list, one claim line by line, and the document of `--json`.

_ClaimsRow = tuple[Claim, State]
_UNSHOWN = ("get", "prompt_tokens")


def claims_table(rows: Sequence[_ClaimsRow]) -> Table:
    """Return one row for each claim."""
    columns: list[Column[_ClaimsRow]] = [
        Column("id", lambda row: row[0].id, "text"),
        Column("system", lambda row: row[0].system, "prose", 1),
        Column("reader", lambda row: row[0].reader or None, "prose", 3),
        Column("claimed", lambda row: None if row[0].value is None else in_percent(row[0].value)),
        Column("n", lambda row: row[0].n),
        Column("metric", lambda row: row[0].metric, "prose", 4),
        Column("judge", lambda row: row[0].judge, "prose", 6),
        Column("source", lambda row: row[0].source.title, "prose", 5),
        Column("read", lambda row: f"{row[0].source.hand}-hand", "text", 2),
        Column("to try it", lambda row: row[1].label, "text"),
    ]
    return tabulate("", columns, rows)


def claim_lines(claim: Claim, state: State) -> Iterator[str | Table]:
    """Yield a claim line by line, the figure first."""
    yield claimed(claim)
    yield f"Source: {claim.source.cited}{f', {claim.source.url}' if claim.source.url else ''}."
    yield f"Data: {claim.variant}. Judge: {claim.judge}. Reader: {claim.reader or UNKNOWN}."
    if claim.note:
        yield f"The source's figure: {claim.note}."
    if claim.by_group:
        yield "Of which: " + ", ".join(f"{name} {in_percent(value)}" for name, value in claim.by_group.items()) + "."
    if claim.settings is not None:
        yield ""
        yield _pairs("As settings of this harness", "setting", "value", settings_shown(claim.settings))
    if claim.assumed:
        yield _pairs("Where the source says nothing", "what", "assumed", claim.assumed)
    yield from (f"Deviates: {line}." for line in claim.deviations)
    if (cost := answering_cost(claim)) is not None:
        dollars, tokens = span(cost.dollars, cost.work.dollars, in_dollars), cost.work.prompt_tokens or 0
        per_prompt = count(tokens / (cost.work.calls or 1))
        yield f"Cost of the answers: {dollars}, by prompts of {per_prompt} tokens; `claims try --dry-run` counts them."
    yield f"To try it: {state.cannot}" if state.cannot else f"To try it: {state.label}."
    yield from (f"  {need.fix}." for need in state.needs)


def attempt_lines(done: Attempt) -> Iterator[str | Table]:
    """Yield the outcome of trying a claim: the verdict, then the verdicts on its groups, then every deviation."""
    text = done.verdict.text
    yield f"{text[0].upper()}{text[1:]}."
    yield figures(done.verdict)
    if done.groups:
        number, findings = len(done.groups), Counter(verdict.finding for verdict in done.groups.values())
        counts = ", ".join(f"{findings[name]:,} {name}" for name in get_args(ClaimFinding) if findings[name])
        corrected = f" (corrected for {number} comparisons)" if number > 1 else ""
        yield f"Of {count_of(number, 'group')} of questions: {counts}{corrected}."
        yield _groups(done.groups)
    if done.not_measured:
        yield f"Not measured, as no question here is of it: {', '.join(done.not_measured)}."
    yield from (f"Deviates: {line}." for line in done.deviations)
    yield from (f"Assumed: {line}." for line in done.assumed)
    yield f"Run: {done.run}."


def _groups(groups: Mapping[str, ClaimVerdict]) -> Table:
    columns: list[Column[tuple[str, ClaimVerdict]]] = [
        Column("group", lambda row: row[0], "text"),
        Column("claimed", lambda row: in_percent(row[1].claimed)),
        Column("measured", lambda row: f"{in_percent(row[1].measured.value)} {bounds(row[1].measured.interval)}"),
        Column("n", lambda row: row[1].measured.n),
        Column("verdict", lambda row: row[1].text, "prose"),
    ]
    return tabulate("", columns, groups.items())


def claimed(claim: Claim) -> str:
    """Return the claimed figure in a sentence."""
    figure = f"{percent(claim.value)} {claim.metric}" if claim.value is not None else f"{claim.metric} of parts"
    on = f"on {count_of(claim.n, 'question')}" if claim.n else "on a number of questions that is not given"
    return f"{claim.id}: {claim.system}{f', read by {claim.reader}' if claim.reader else ''}: {figure} {on}."


def settings_shown(settings: ClaimSettings) -> dict[str, str]:
    """Return the settings that a claim states, under the names of this harness's options."""
    shown: dict[str, str] = {}
    for name, value in settings.model_dump(exclude_defaults=True).items():
        if name in _UNSHOWN:
            continue
        if isinstance(value, dict):
            shown |= {key.replace("_", " "): _value(part) for key, part in value.items()}
        else:
            shown[name] = _value(value)
    return shown


def claims_document(claim: Claim, state: State) -> dict[str, Any]:
    """Return a claim as `--json` prints it."""
    plain: dict[str, Any] = msgspec.structs.asdict(claim)
    settings = claim.settings.model_dump(exclude_defaults=True) if claim.settings else None
    return plain | {
        "source": claim.source.model_dump(),
        "settings": settings,
        "state": state.label,
        "needs": [msgspec.structs.asdict(need) for need in state.needs],
        "cannot": state.cannot,
    }


def _value(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _pairs(title: str, first: str, second: str, pairs: Mapping[str, str]) -> Table:
    columns: list[Column[tuple[str, str]]] = [
        Column(first, lambda row: row[0], "prose"),
        Column(second, lambda row: row[1], "prose"),
    ]
    return tabulate(title, columns, pairs.items())


# Show runs and preparations in progress, as a table and in sentences.


def status_table(runs: Sequence[RunState], preparations: Sequence[PreparationState]) -> Table:
    """Return one row for each run and preparation."""
    return tabulate("", _COLUMNS, [*map(_run_row, runs), *map(_preparation_row, preparations)])


def progress(run: RunState) -> str:
    """Return how much of its current stage a run has done, and how long the rest takes, in a few words."""
    work = run.at_work
    if work is None:
        return UNKNOWN
    left = f", {duration(work.seconds_left)} left" if work.seconds_left is not None else ""
    return f"{_done(work)}{left}"


class _StatusRow(Struct, frozen=True):
    name: str
    state: str
    work: Work | None
    spent: str | None
    score: str | None = None


def _run_row(run: RunState) -> _StatusRow:
    score = _score_so_far(run.scores[-1]) if run.scores else None
    return _StatusRow(run.run, run.state, run.at_work, _spent(run), score)


def _preparation_row(preparation: PreparationState) -> _StatusRow:
    return _StatusRow(preparation.preparation, preparation.state, preparation.work, _spent(preparation))


def _work(
    title: str, value: Callable[[Work], str | int | None], kind: Kind = "figure", drop: int = 0
) -> Column[_StatusRow]:
    return Column(title, lambda row: value(row.work) if row.work else None, kind, drop)


_COLUMNS: list[Column[_StatusRow]] = [
    Column("run", lambda row: row.name, "text"),
    Column("state", lambda row: row.state, "text"),
    _work("stage", lambda work: work.name, "text", drop=2),
    _work("done", lambda work: _done(work)),
    _work("failed", lambda work: work.failed, drop=3),
    _work("rate", lambda work: _rate(work) or None, drop=4),
    _work("left", lambda work: duration(work.seconds_left)),
    Column("spent", lambda row: row.spent, drop=1),
    Column("score", lambda row: row.score, "text"),
]


def sentences(job: RunState | PreparationState) -> Iterator[str]:
    """Yield the progress of one run or preparation, what it spent, and its scores."""
    name = job.run if isinstance(job, RunState) else job.preparation
    yield f"{name}: {_describe(job)}"
    works = (
        [work for work in job.work if work is job.at_work or work.alive] if isinstance(job, RunState) else [job.work]
    )
    for work in works:
        failed = f", {work.failed:,} failed" if work.failed else ""
        rate = f", {_rate(work)}" if work.per_second else ""
        left = f", {duration(work.seconds_left)} left" if work.seconds_left is not None else ""
        quiet = f", last line {duration(work.quiet_s)} ago" if work.quiet_s is not None and not job.is_over else ""
        yield f"  {work.name}: {_done(work)} done{failed}{rate}{left}{quiet}"
    if spent := _spent(job):
        yield f"  spent: {spent}"
    if isinstance(job, RunState):
        for score in job.scores:
            yield f"  {_score_so_far(score)}, judged by {score.judge}"


def _describe(job: RunState | PreparationState) -> str:
    work = job.at_work if isinstance(job, RunState) else job.work
    if job.state == "died":
        pid = f"Process {work.pid}" if work and work.pid else "Its process"
        return f"died. {pid} ended without saying so; the same command goes on"
    if job.state == "away":
        return f"running on {work.host if work else 'another machine'}, or died there: its lock is free here"
    if work and work.alive and work.pid:
        return f"{job.state} (process {work.pid} on {work.host})"
    return job.state


def _done(work: Work) -> str:
    return f"{work.done:,}" if work.total is None else f"{work.done:,} of {work.total:,}"


def _rate(work: Work) -> str:
    if not work.per_second:
        return ""
    return f"{work.per_second:.1f}/s" if work.per_second >= 1 else f"{work.per_second * 60:.1f}/min"


def _spent(job: RunState | PreparationState) -> str | None:
    if job.spent_usd is None:
        return None
    of = f" of {in_dollars(job.limit_usd)}" if job.limit_usd is not None else ""
    return f"{in_dollars(job.spent_usd)}{of}"


def _score_so_far(score: ScoreSoFar) -> str:
    named = "interim " if score.interim else ""
    if score.value is None or score.interval is None:
        return f"{named}{score.metric}: nothing is judged yet"
    so_far = f" over {score.judged:,} of {score.of:,}" if score.interim else ""
    return f"{named}{score.metric} {percent(score.value)} {bounds(score.interval)}{so_far}"
