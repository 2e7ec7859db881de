"""What `retrieval` shows: a table per kind of gold, footnotes, and the JSON document."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from longmemeval.embedding.registry import is_offline_fallback
from longmemeval.evaluation.measures.aggregate import Mean
from longmemeval.evaluation.measures.notation import Measure
from longmemeval.pipeline.retrieval.official import CROSS_CHECKED, RETRIEVERS
from longmemeval.pipeline.runs.manifest import RunManifest, read_manifest
from longmemeval.pipeline.runs.rankings import RetrievalReport, RetrievalResult
from longmemeval.report.summary import FALLBACK_NOTE, ORACLE_NOTE
from longmemeval.report.table import Table

_SHOWN_CUTOFFS = (5, 10)
"""Of the official protocol, which has six: those the paper prints."""

_NAMED_QUESTIONS = 5

_MERGE_FAULTS = (
    "an empty list of facts takes its document out of the corpus, gold or not (without gold left recall_all is 1, the "
    "others 0); unlabelled documents of evidence sessions (noans) are not expanded; a session that a haystack holds "
    "twice is expanded twice."
)
_SEPARATE_FAULTS = (
    "an expansion is one more document under the id as the data has it, so those of unlabelled documents of evidence "
    "sessions (noans) count as gold."
)


def retrieval_document(report: RetrievalReport) -> dict[str, object]:
    """The document that `retrieval --json` prints; means are fractions, None where no question has a value."""
    results = [
        {
            "memory": result.memory,
            "protocol": result.protocol,
            "granularity": result.granularity,
            "gold": result.gold_rule,
            "denominator": result.denominator,
            "measures": _means(result.measures),
            "by_type": {name: _means(measures) for name, measures in result.by_type.items()},
        }
        for run in report.runs
        for result in run.results
    ]
    part = {"part": report.part} if report.part else {}
    return {"dataset": report.dataset, **part, "results": results}


def _means(measures: Mapping[str, Mean]) -> dict[str, float | None]:
    return {name: mean.mean for name, mean in measures.items()}


def retrieval_tables(report: RetrievalReport) -> Iterator[Table]:
    """A table per kind of gold and denominator, one row per memory; per question type too when there is one memory."""
    for alike in zip(*(run.results for run in report.runs), strict=True):
        first = alike[0]
        names = _shown(first)
        title = f"{report.dataset}, {first.protocol} protocol, {first.granularity} level: {first.gold_rule}"
        rows = [[result.memory, *_cells(result.measures, names)] for result in alike]
        if len(alike) == 1:
            rows += [[f"  {name}", *_cells(measures, names)] for name, measures in first.by_type.items()]
        part = f"{report.part}; " if report.part else ""
        columns = _columns(names)
        # Measures from the last to the second; the first has its interval.
        drop = tuple(range(len(columns) - 1, 3, -1))
        yield Table(f"{title}\n{part}{first.denominator}", columns, rows, drop=drop)


def _shown(result: RetrievalResult) -> list[str]:
    """The measures that get a column."""
    names = list(result.measures)
    if result.protocol == "standard":
        return names
    return [name for name in names if Measure.parse(name).cutoff in _SHOWN_CUTOFFS]


def _columns(names: Sequence[str]) -> list[str]:
    first, *others = (name.replace("@", "\n@") for name in names)
    return ["memory", "n", first, "95 % interval", *others]


def _cells(measures: Mapping[str, Mean], names: Sequence[str]) -> list[str]:
    first = measures[names[0]]
    interval = "-" if first.interval is None else f"[{first.interval[0] * 100:.1f}, {first.interval[1] * 100:.1f}]"
    return [f"{first.n:,}", _percent(first), interval, *(_percent(measures[name]) for name in names[1:])]


def _percent(mean: Mean) -> str:
    return "-" if mean.mean is None else f"{mean.mean * 100:.1f}"


def retrieval_footnotes(report: RetrievalReport) -> list[str]:
    """What has to be said under the tables."""
    official = report.protocol == "official"
    notes = ["Figures in percent; n: questions with a value."]
    if official:
        notes.append("Cutoffs 1, 3, 30 and 50 are in the metrics file and under --json.")
        notes.append("Ties: the later document first (a stable sort, reversed).")
        notes.extend(_unlabelled_note(report))
        manifests = [read_manifest(Path(run.folder)) for run in report.runs]
        notes.extend(_bm25_note(manifests))
        notes.extend(_expansion_notes(manifests))
    else:
        notes.append(
            "Ties: in the order of the history. What a memory recalls without ranking it follows, newest first."
        )
    if any(run.reads_gold for run in report.runs):
        notes.append(ORACLE_NOTE)
    if any(run.embedder and is_offline_fallback(run.embedder) for run in report.runs):
        notes.append(FALLBACK_NOTE)
    return notes


def _unlabelled_note(report: RetrievalReport) -> list[str]:
    """Which questions have no value because the data does not tell their evidence."""
    results = [result for run in report.runs for result in run.results]
    without = list(dict.fromkeys(question_id for result in results for question_id in result.without_labels))
    if not without:
        return []
    named = ", ".join(without[:_NAMED_QUESTIONS])
    more = f" and {len(without) - _NAMED_QUESTIONS:,} more" if len(without) > _NAMED_QUESTIONS else ""
    return [
        f"Without turn labels (has_answer), and so without a value: {named}{more}. The official code stops at such "
        "data; the standard protocol goes by answer_session_ids."
    ]


def _bm25_note(manifests: Sequence[RunManifest]) -> list[str]:
    """With what the scores of BM25 were compared."""
    selected = [len(one.question_ids) for one in manifests if one.settings["retriever"] == RETRIEVERS["bm25"]]
    checked = min(CROSS_CHECKED, max(selected, default=0))
    if not checked:
        return []
    whose = f"the first {checked} questions" if checked > 1 else "the first question"
    library = f"rank-bm25 {version('rank-bm25')}"
    return [f"BM25 is our own code; its scores of {whose} equal those of {library} bit for bit (compared in this run)."]


def _expansion_notes(manifests: Sequence[RunManifest]) -> list[str]:
    """What the official code does with expansions that a reader of the figures would not expect."""
    found = [one.settings.get("expansion") for one in manifests]
    joined = {one["join"]: one["method"] for one in found if one}
    return [
        f"Expansions ({method}, {mode}) are joined as by the official code, its faults included: "
        f"{_SEPARATE_FAULTS if mode == 'separate' else _MERGE_FAULTS}"
        for mode, method in joined.items()
    ]
