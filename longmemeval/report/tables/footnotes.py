"""Build the notes below tables of runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longmemeval.core.text.figures import count_of, listed, percent
from longmemeval.embedding.registry import is_offline_fallback
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.judges.template_set import grading, judge_name
from longmemeval.llm.offline import CONTROL_MODELS
from longmemeval.measures.metrics import Metrics
from longmemeval.memory.products.profiles import is_amount
from longmemeval.pipeline.compare.columns import WARNED
from longmemeval.pipeline.compare.comparison import Comparison, RunFigures
from longmemeval.report.tables.comparison import FLIPS_NOTE
from longmemeval.report.tables.effort import effort_notes
from longmemeval.report.tables.memory_models import memory_model_notes
from longmemeval.results.graded.graded_run import RunSummary
from longmemeval.results.graded.judge_checks import CheckedScore
from longmemeval.results.scores.warnings import Gradings, ScoreWarning

_SHOWN = 4
"""The number of run ids named in one line before the rest is counted."""
ORACLE_NOTE = "oracle reads the gold evidence: it is a ceiling, not a memory system."
CONTROL_NOTE = (
    "Control models understand no question: offline/refuse always declines, offline/parrot repeats all that was "
    "recalled, offline/last-session its last session. Where one scores, the judge takes such text for an answer."
)
FALLBACK_NOTE = (
    "Embedder: hashing, the offline fallback. For real figures prepare with --embedder "
    "fastembed:BAAI/bge-small-en-v1.5, fastembed:FOLDER or openai:text-embedding-3-small."
)


def official_status(judge: JudgeIdentity) -> str:
    """Say whether the figures of a judge can be compared with published ones."""
    if judge.official:
        return "Official."
    return "NOT the official judge: figures do not compare with published ones."


def footnotes(summaries: list[RunSummary], *, warnings: bool = True) -> list[str]:
    """Return the notes that belong below any table of these runs.

    Args:
        warnings: include the warnings about scores; a comparison has them as sentences.
    """
    notes: list[str] = []
    if warnings:
        notes += warning_lines([(summary.run_id, summary.warnings) for summary in summaries])
    judges = [summary.metrics.judge for summary in summaries]
    notes += dict.fromkeys(f"Judge: {judge_name(judge)}. {official_status(judge)}" for judge in judges)
    checked = [(check, summary) for summary in summaries if (check := summary.judge_check)]
    notes += dict.fromkeys(_check_note(check, summary.metrics) for check, summary in checked)
    notes += [f"{run.run_id}: the score cannot be corrected: {check.reason}." for check, run in checked if check.reason]
    notes.extend(
        f"The questions share {haystacks} haystacks: intervals are bootstrapped over whole haystacks."
        for haystacks in dict.fromkeys(summary.metrics.haystacks for summary in summaries)
        if haystacks
    )
    notes += dict.fromkeys(f"Not the whole data set: {summary.part}." for summary in summaries if summary.part)
    notes += dict.fromkeys(summary.protocol_note for summary in summaries if summary.protocol_note)
    notes += dict.fromkeys(note for summary in summaries for note in summary.type_notes)
    if any(summary.model in CONTROL_MODELS for summary in summaries):
        notes.append(CONTROL_NOTE)
    if any(summary.reads_gold for summary in summaries):
        notes.append(ORACLE_NOTE)
    notes += dict.fromkeys(
        f"{summary.memory} reads parts that would not come out the same if they were prepared again: "
        f"{', '.join(summary.not_reproducible)}."
        for summary in summaries
        if summary.not_reproducible
    )
    notes += dict.fromkeys(note for summary in summaries for note in part_notes(summary.memory, summary.parts_told))
    if any(summary.embedder and is_offline_fallback(summary.embedder) for summary in summaries):
        notes.append(FALLBACK_NOTE)
    for summary in summaries:
        if summary.gradings:
            notes.append(_gradings_note(summary, summary.gradings))
        if summary.failed:
            failed = count_of(summary.failed, "question failed and counts", "questions failed and count")
            notes.append(f"{summary.run_id}: {failed} as wrong (not evaluated).")
        if cached := summary.memory_calls.cached_calls:
            calls = f"{cached:,} of {summary.memory_calls.calls:,} model calls of searches"
            notes.append(f"{summary.run_id}: {calls} were answered by the cache; recall took less time for it.")
        if summary.memory_calls.failed_calls:
            failed = count_of(summary.memory_calls.failed_calls, "model call")
            notes.append(f"{summary.run_id}: {failed} of searches failed; see the notes of the answers.")
        if summary.shortened:
            shortened = count_of(summary.shortened, "context was", "contexts were")
            notes.append(f"{summary.run_id}: {shortened} shortened to fit the model's window.")
        if summary.undated:
            undated = count_of(summary.undated, "answer rests", "answers rest")
            notes.append(f"{summary.run_id}: {undated} on items without a date.")
    return notes


def warning_lines(runs: Sequence[tuple[str, Sequence[ScoreWarning]]]) -> Iterator[str]:
    """Yield the warnings about scores, each once, naming the runs it is about unless it is about all.

    Args:
        runs: the name of each run, with its warnings.
    """
    about: dict[str, list[str]] = {}
    for name, warnings in runs:
        for warning in warnings:
            about.setdefault(warning.text, []).append(name)
    for text, names in about.items():
        yield text if len(names) == len(runs) else f"{listed(names, _SHOWN)}: {text}"


def warning_codes(runs: Sequence[tuple[str, Sequence[ScoreWarning]]]) -> list[str]:
    """Return a line with the code of each warning and the runs it is about; none without warnings."""
    about: dict[str, list[str]] = {}
    for name, warnings in runs:
        for code in dict.fromkeys(warning.code for warning in warnings):
            about.setdefault(code, []).append(name)
    parts = [f"{code} ({'all' if len(names) == len(runs) else listed(names, _SHOWN)})" for code, names in about.items()]
    return [f"{WARNED} {'; '.join(parts)}."] if parts else []


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return everything the figures of a comparison rest on: cautions first, each note once."""
    summaries = [row.summary for row in comparison.rows]
    notes = [*deviation_lines(comparison), *comparison.texts("caution", "note")]
    if any(row.provenance == "session" for row in comparison.rows):
        notes.append(BY_SESSION_NOTE)
    if comparison.repeats:
        notes.append(FLIPS_NOTE)
    return list(dict.fromkeys([*notes, *footnotes(summaries, warnings=False), *effort_notes(summaries)]))


def caution_lines(comparison: Comparison) -> list[str]:
    """Return the lines below the table: what marks mean, cautions, deviations of products, and what else differs."""
    lines = [marks_line(comparison), *comparison.texts("caution"), *deviation_lines(comparison)]
    if comparison.differing:
        lines.append(f"Settings that differ besides the memories: {', '.join(comparison.differing)}.")
    return [line for line in lines if line]


def marks_line(comparison: Comparison) -> str:
    """Return the meaning of the marks; empty if no run has one."""
    marked = any(row.marks for row in comparison.rows)
    return "▲ ▼ significantly better/worse (p < 0.05, Holm). CIs are per pair, uncorrected." if marked else ""


BY_SESSION_NOTE = (
    "(s): evidence recall by session, where the memory does not say which messages it found; it does not compare with "
    "recall by message."
)


def deviation_lines(comparison: Comparison) -> Iterator[str]:
    """Yield a line per product: the profile by which it was measured, and what that leaves out.

    Runs that differ only in their budgets share a line.
    """
    about: dict[tuple[str, ...], list[RunFigures]] = {}
    for run in comparison.rows:
        if run.deviations:
            about.setdefault(tuple("" if is_amount(text) else text for text in run.deviations), []).append(run)
    for shared, runs in about.items():
        amounts = " or ".join(dict.fromkeys(text for run in runs for text in run.deviations if is_amount(text)))
        names = [comparison.names[run.run_id] for run in runs]
        yield f"{listed(names, _SHOWN)}: {', '.join(deviation or amounts for deviation in shared)}."


def _check_note(check: CheckedScore, metrics: Metrics) -> str:
    """Return a note on what the check of a judge found and how scores are corrected by it."""
    rates = f"{percent(check.right_passed)} of right and {percent(check.wrong_passed)} of wrong"
    verb = "passes" if metrics.judge.metric == "accuracy" else "gives on average"
    how, what = ("answers labelled by hand", "answers") if check.judged else ("planted answers", "plants")
    elsewhere = f" * These {what} are of ANOTHER data set: on that of the runs the judge may err otherwise."
    return (
        f"Corrected for the judge: {judge_name(metrics.judge)} {verb} {rates} {how} "
        f"({check.plants:,} {what} on {check.of}; Rogan and Gladen). It stands beside the score, never instead of it."
        + (elsewhere if check.other_data else "")
    )


def _gradings_note(summary: RunSummary, gradings: Gradings) -> str:
    """Return a note on the spread of a run's gradings by one judge, and on which of them is the score."""
    judge = summary.metrics.judge
    first = f"the first is the score, {percent(gradings.accuracies[0])}"
    shown = "" if grading(judge) == 1 else f", and this is number {grading(judge)}"
    return (
        f"{summary.run_id}: {gradings.n} gradings by this judge, {judge.metric} {percent(gradings.lowest)} to "
        f"{percent(gradings.highest)}; {first}{shown}."
    )


def part_notes(memory: str, parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield sentences on each part that a run reads.

    Args:
        memory: name of the memory in tables.
        parts: the recorded facts on each part, by its name: `parts` in the settings of a manifest.
    """
    for stats in parts.values():
        if "service" in stats:
            yield _service_note(memory, stats)
            yield from memory_model_notes(memory, stats)
        if failed := stats["failed_haystacks"]:
            yield (
                f"{memory}: {failed:,} of {stats['haystacks']:,} haystacks could not be ingested; their questions "
                "count, and have no answer."
            )


def _service_note(memory: str, stats: Mapping[str, Any]) -> str:
    """Return the versions, what is not as the tables assume, and the losses of a service; run.json has all of it."""
    packages = ", ".join(" ".join(pair) for pair in stats["packages"][0].items()) or "versions not given"
    differ = "" if len(stats["packages"]) == 1 else " (VERSIONS DIFFER between haystacks)"
    failed = stats["failed_batches"]
    lost = f"; {failed:,} of {stats['batches']:,} batches failed" if failed else ""
    capabilities = stats["capabilities"][0].items()
    amiss = "".join(f"; {text}" for key, value in capabilities if (text := _AMISS.get(f"{key}: {value}")))
    remarks = "".join(f" {text[:1].upper()}{text[1:]}." for text in stats.get("remark", ()))
    return f"{memory}: {packages}{differ}{amiss}{lost}.{remarks}"


_AMISS = {
    "dates: text": "dates of sessions reach it inside of texts only",
    "dates: none": "it loses the dates of sessions",
    "usual provenance: session": "recall is scored by session",
    "usual provenance: none": "it does not say where its hits are from",
    "persistence: none": "nothing of it is kept: each run adds all sessions again",
    "telemetry: on": "it sends telemetry",
}
"""Capabilities of a service that a reader of the tables has to know about."""
