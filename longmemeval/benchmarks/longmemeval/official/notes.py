"""Notes under tables of the official protocol of retrieval."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version

from longmemeval.benchmarks.longmemeval.official.retrieval import CROSS_CHECKED, RETRIEVERS
from longmemeval.benchmarks.retrieval_protocols import RankedRun
from longmemeval.core.text.figures import listed

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


def notes(runs: Sequence[RankedRun]) -> list[str]:
    """Return the notes, a sentence or two each."""
    return [
        "Cutoffs 1, 3, 30 and 50 are in the metrics file and under --json.",
        "Ties: the later document first (a stable sort, reversed).",
        *_unlabelled_note(runs),
        *_bm25_note(runs),
        *_expansion_notes([run.settings for run in runs]),
    ]


def _unlabelled_note(runs: Sequence[RankedRun]) -> list[str]:
    """Return a note on questions without a value because the data does not label their evidence."""
    results = [result for run in runs for result in run.results]
    without = list(dict.fromkeys(question_id for result in results for question_id in result.without_labels))
    if not without:
        return []
    return [
        f"Without turn labels (has_answer), and so without a value: {listed(without, _NAMED_QUESTIONS)}. The official "
        "code stops at such data; the standard protocol goes by answer_session_ids."
    ]


def _bm25_note(runs: Sequence[RankedRun]) -> list[str]:
    """Return a note on the library that the scores of BM25 were compared with."""
    selected = [run.questions for run in runs if run.settings["retriever"] == RETRIEVERS["bm25"]]
    checked = min(CROSS_CHECKED, max(selected, default=0))
    if not checked:
        return []
    whose = f"the first {checked} questions" if checked > 1 else "the first question"
    library = f"rank-bm25 {version('rank-bm25')}"
    return [f"BM25 is our own code; its scores of {whose} equal those of {library} bit for bit (compared in this run)."]


def _expansion_notes(settings: Sequence[Mapping[str, object]]) -> list[str]:
    """Return notes on the official code's treatment of expansions that readers of the figures would not expect."""
    expansions = [record["expansion"] for record in settings if record.get("expansion")]
    joined = {expansion["join"]: expansion["method"] for expansion in expansions if isinstance(expansion, dict)}
    return [
        f"Expansions ({method}, {mode}) are joined as by the official code, its faults included: "
        f"{_SEPARATE_FAULTS if mode == 'separate' else _MERGE_FAULTS}"
        for mode, method in joined.items()
    ]
