"""LongMemEval's own retrieval evaluation: corpus, gold ids, metrics and denominators.

Follows `src/retrieval/run_retrieval.py` and `src/retrieval/eval_utils.py` of the official repository to the last bit,
oddities included. Gold is not `answer_session_ids` there: a document is gold if its id, after relabelling, still
contains the word "answer".
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from longmemeval.benchmarks.longmemeval.loader import LabelledTurn, Record
from longmemeval.measures.compute import ndcg_official, recall_all, recall_any
from longmemeval.measures.notation import Granularity

Denominator = Literal["user-evidence", "answerable", "all"]

OFFICIAL_CUTOFFS = (1, 3, 5, 10, 30, 50)

DENOMINATORS: Mapping[Denominator, str] = {
    "user-evidence": "no abstention, user evidence",
    "answerable": "no abstention",
    "all": "abstention included",
}
"""Description of the questions that a mean covers. Of LongMemEval's 500, these are 419 (`run_retrieval.py`, since April
2025), 470 (`print_retrieval_metrics.py`, and the paper) or 500 (many third parties)."""


class OfficialDocument(Struct, frozen=True):
    """One document of the official corpus."""

    corpus_id: str
    text: str
    timestamp: str
    """Date of the session, as in the data."""


class OfficialScores(NamedTuple):
    """The three official metrics at one cutoff."""

    recall_any: float
    recall_all: float
    ndcg: float
    """The measure that the official code prints as `ndcg_any`; here it is `ndcg_official`."""


def official_corpus(record: Record, granularity: Granularity) -> list[OfficialDocument]:
    """Return the documents that the official retrieval ranks, in file order; ids may repeat, texts may be blank.

    Only user turns are indexed. `session`: one document per session, its user turns joined with a space, under the id
    of the session. `turn`: one document per user turn, under the id `session_i`, where i is the turn's number from 1,
    counting the assistant's turns. In the id of a document without a labelled user turn, "answer" becomes "noans".
    """
    sessions = zip(record.haystack_session_ids, record.haystack_sessions, record.haystack_dates, strict=True)
    units = _session_units if granularity == "session" else _turn_units
    return [
        OfficialDocument(
            corpus_id=unit_id if any(turn.has_answer for turn in turns) else unit_id.replace("answer", "noans"),
            text=" ".join(turn.content for turn in turns),
            timestamp=date,
        )
        for session_id, session, date in sessions
        for unit_id, turns in units(session_id, session)
    ]


_Unit = tuple[str, list[LabelledTurn]]


def _session_units(session_id: str, session: Sequence[LabelledTurn]) -> Iterator[_Unit]:
    yield session_id, [turn for turn in session if turn.role == "user"]


def _turn_units(session_id: str, session: Sequence[LabelledTurn]) -> Iterator[_Unit]:
    for number, turn in enumerate(session, start=1):
        if turn.role == "user":
            yield f"{session_id}_{number}", [turn]


def official_gold(corpus_ids: Iterable[str]) -> frozenset[str]:
    """Return the gold ids: those that contain the word "answer"."""
    return frozenset(corpus_id for corpus_id in corpus_ids if "answer" in corpus_id)


def evaluate_retrieval(
    rankings: Sequence[int], correct: Collection[str], corpus_ids: Sequence[str], k: int
) -> OfficialScores:
    """Return the official metrics of one ranking.

    Args:
        rankings: indices into `corpus_ids`, best first.
        correct: gold ids. Without any the scores are (0, 1, 0).
        corpus_ids: one id per document, with repeats.
        k: cutoff, from 1.
    """
    ranked = [corpus_ids[index] for index in rankings[:k]]
    return OfficialScores(
        recall_any(ranked, correct, k), recall_all(ranked, correct, k), ndcg_official(ranked, correct, corpus_ids, k)
    )


def evaluate_turn_to_session(
    rankings: Sequence[int], correct: Collection[str], corpus_ids: Sequence[str], k: int
) -> OfficialScores:
    """Return the official metrics of a ranking of turns, scored as sessions (`evaluate_retrieval_turn2session`).

    Turn numbers are stripped from the ids, and the cutoff grows until the ranking has k distinct sessions. The scored
    units are still the turns: `noans_x` and `answer_x` are two sessions, and a gold session with two labelled turns is
    two gold items to nDCG.

    Args:
        rankings: indices into `corpus_ids`, best first.
        correct: gold turn ids.
        corpus_ids: one turn id per document.
        k: number of sessions to look at, from 1.
    """
    sessions = [_session_of(turn_id) for turn_id in corpus_ids]
    # If there are fewer than k distinct sessions, the official cutoff grows past the corpus.
    cutoff = _rank_of_distinct((sessions[index] for index in rankings), k) or max(k, len(corpus_ids))
    return evaluate_retrieval(rankings, {_session_of(turn_id) for turn_id in correct}, sessions, cutoff)


def _session_of(turn_id: str) -> str:
    return turn_id.rpartition("_")[0]


def _rank_of_distinct(ranked: Iterable[str], k: int) -> int | None:
    """Return the rank, from 1, at which the k-th distinct id appears; None when there are fewer."""
    seen: set[str] = set()
    for rank, identifier in enumerate(ranked, start=1):
        seen.add(identifier)
        if len(seen) == k:
            return rank
    return None


def is_counted(record: Record, denominator: Denominator) -> bool:
    """Return whether a mean over `denominator` includes the question.

    User evidence is a labelled user turn anywhere in the haystack, whatever its corpus id.
    """
    if denominator == "all":
        return True
    answerable = "_abs" not in record.question_id
    return answerable if denominator == "answerable" else answerable and _has_user_evidence(record)


def _has_user_evidence(record: Record) -> bool:
    return any(turn.role == "user" and turn.has_answer for session in record.haystack_sessions for turn in session)
