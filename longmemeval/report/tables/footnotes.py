"""Build the notes below tables of runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longmemeval.core.text.figures import count_of, listed, percent
from longmemeval.embedding.registry import is_offline_fallback
from longmemeval.judges.official_status import grading, judge_name
from longmemeval.judges.protocol import JudgeIdentity
from longmemeval.llm.controls import CONTROL_MODELS
from longmemeval.measures.metrics import Metrics
from longmemeval.memory.products.profiles import is_amount
from longmemeval.pipeline.compare.comparison import NO_DIFFERENCE, Comparison, RunFigures, Verdict
from longmemeval.pipeline.compare.shared import Warned, by_code, is_shared, memories_in
from longmemeval.pipeline.compare.verdict import verdict_of
from longmemeval.report.tables.cells import WARNED
from longmemeval.report.tables.memory_models import memory_model_notes
from longmemeval.results.graded.graded_run import RunSummary
from longmemeval.results.graded.judge_checks import CheckedScore
from longmemeval.results.scores.gradings import Gradings

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


def footnotes(summaries: list[RunSummary]) -> list[str]:
    """Return the notes that belong below any table of these runs."""
    notes: list[str] = []
    notes += warning_lines(*named_warnings(summaries))
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


def warning_lines(runs: Warned, memories: Sequence[str] = ()) -> Iterator[str]:
    """Yield the warnings about scores, each once, naming the runs it is about unless it is about all.

    Args:
        runs: the name of each run, with its warnings.
        memories: names of the compared memories; a warning that all of these share has no mark.
    """
    codes, about_runs = by_code(runs), dict[tuple[str, str], list[str]]()
    for name, warnings in runs:
        for warning in warnings:
            about_runs.setdefault((warning.code, warning.text), []).append(name)
    for (code, text), names in about_runs.items():
        about = "" if len(names) == len(runs) else f"{_about(names, runs, memories)}: ".replace("all mem", "All mem")
        yield f"{'' if is_shared(codes[code], memories) else f'{WARNED} '}{about}{text}"


def warning_codes(runs: Warned, memories: Sequence[str] = ()) -> list[str]:
    """Return the codes of the warnings with the runs they are about.

    Warnings that all compared memories share come first; the others follow on a line with a mark.

    Args:
        runs: the name of each run, with its warnings.
        memories: names of the compared memories.
    """
    lines: dict[str, list[str]] = {"Warnings: ": [], f"{WARNED} ": []}
    for code, names in by_code(runs).items():
        begin = "Warnings: " if is_shared(names, memories) else f"{WARNED} "
        lines[begin].append(f"{code} ({_about(names, runs, memories)})")
    return [f"{begin}{'; '.join(parts)}." for begin, parts in lines.items() if parts]


def named_warnings(summaries: Sequence[RunSummary], called: Mapping[str, str] = {}) -> tuple[Warned, list[str]]:
    """Return the names of the runs with their warnings, and the names of the compared memories."""
    names = {summary.run_id: called.get(summary.run_id, summary.run_id) for summary in summaries}
    memories = [names[summary.run_id] for summary in memories_in(summaries)]
    return [(names[summary.run_id], summary.warnings) for summary in summaries], memories


def _about(names: Sequence[str], runs: Warned, memories: Sequence[str]) -> str:
    if len(names) == len(runs):
        return "all runs"
    if len(memories) > 1 and is_shared(names, memories):
        others = ("the baseline" if name == runs[0][0] else name for name in names if name not in memories)
        names = ["all memories", *others]
    return listed(names, _SHOWN)


def marks_line(comparison: Comparison, called: Mapping[str, str]) -> str:
    """Return the meaning of the marks, with the runs under these names; empty if no run has a mark."""
    if not any(run.marks for run in comparison.runs):
        return ""
    baseline = comparison.runs[0].summary.run_id
    first = f"{called.get(baseline, baseline)} (p after Holm below 0.05)"
    return f"▲ ▼: significantly better or worse than the baseline, {first}; of the others {NO_DIFFERENCE}."


def verdict_called(comparison: Comparison, called: Mapping[str, str]) -> Verdict:
    """Return the verdict with these names in place of the ids of runs."""
    return verdict_of(
        [run.summary for run in comparison.runs],
        comparison.pairs,
        comparison.repeats,
        margin=comparison.verdict.margin,
        not_surviving=comparison.not_surviving,
        called=called,
    )


def short_notes(comparison: Comparison, names: Sequence[str] = (), *, option: str = "") -> list[str]:
    """Return the lines below the table: codes of warnings, the first caution, deviations and differing settings.

    Args:
        names: names of the runs; empty: their ids.
        option: the command line option that shows the other cautions; empty: they are shown anyway.
    """
    names = names or [run.summary.run_id for run in comparison.runs]
    called = dict(zip((run.summary.run_id for run in comparison.runs), names, strict=True))
    lines = warning_codes(*named_warnings([run.summary for run in comparison.runs], called))
    first, *others = comparison.cautions or ("",)
    if first:
        more = f" ({len(others)} more such {'note' if len(others) == 1 else 'notes'}: {option})"
        lines.append(first + (more if others and option else ""))
    lines += deviation_lines(comparison, called)
    if comparison.differing:
        lines.append(f"What differs besides the memories: {', '.join(comparison.differing)}.")
    return lines


def deviation_lines(comparison: Comparison, called: Mapping[str, str] = {}) -> Iterator[str]:
    """Yield a line per product: the profile by which it was measured, and what that leaves out.

    Runs that differ only in their budgets share a line.
    """
    about: dict[tuple[str, ...], list[RunFigures]] = {}
    for run in comparison.runs:
        if run.deviations:
            about.setdefault(tuple("" if is_amount(text) else text for text in run.deviations), []).append(run)
    for shared, runs in about.items():
        amounts = " or ".join(dict.fromkeys(text for run in runs for text in run.deviations if is_amount(text)))
        names = [called.get(run.summary.run_id, run.summary.run_id) for run in runs]
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
