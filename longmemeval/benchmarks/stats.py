"""Counts over a dataset."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct, field

from longmemeval.benchmarks.catalogue import benchmark_of
from longmemeval.dataset import Dataset
from longmemeval.records import Gold, Haystack, Question


class TypeCount(Struct):
    """Questions of one type."""

    total: int = 0
    abstention: int = 0


class GroupCount(Struct):
    """Questions of one type with the same values of the benchmark's other groupings."""

    question_type: str
    facets: dict[str, int]
    questions: int = 0


class DatasetStats(Struct):
    """Counts over a whole dataset, with both of its hashes."""

    name: str
    path: str
    sha256: str
    content_sha256: str
    copy: str | None = None
    """Name of the copy in circulation that the file is; None if only one release is known."""
    questions: int = 0
    by_type: dict[str, TypeCount] = field(default_factory=dict)
    groups: list[GroupCount] = field(default_factory=list)
    """Questions by type and facets (`Gold.facets`), sorted; empty if there are none."""
    integer_answers: int = 0
    evidence_sessions: int = 0
    evidence_turns: int = 0
    """Number of distinct evidence turns per question, summed over the questions; likewise for `evidence_sessions`."""
    haystacks: int = 0
    """Number of haystacks with at least one session."""
    sessions: int = 0
    turns: int = 0
    captions: int = 0
    """Turns with the caption of a picture."""
    fewest_sessions: int = 0
    mean_sessions: float = 0.0
    most_sessions: int = 0
    """Sessions per haystack, over the haystacks that have any."""
    fewest_turns: int = 0
    mean_turns: float = 0.0
    most_turns: int = 0
    """Turns per session."""
    first_session: datetime | None = None
    last_session: datetime | None = None
    stand_in_dates: bool = False
    """True if the data has no dates: the dates above only define the order of sessions."""
    questions_before_last_session: int = 0
    """Questions dated before a session of their haystack, like the next only where the data has dates."""
    questions_with_later_evidence: int = 0
    """Questions with an evidence session dated after the question: a memory that honours dates cannot know it."""
    duplicated_sessions: int = 0
    """Sessions with the same turns as another of the same haystack."""
    quirks: Struct | None = None
    """Oddities that the data's benchmark counts; None if it counts none."""

    @property
    def misleading(self) -> tuple[str, ...]:
        """Names of the counts of what can mislead that the data allow."""
        dated = () if self.stand_in_dates else ("questions_before_last_session", "questions_with_later_evidence")
        return (*dated, "duplicated_sessions")


def dataset_stats(dataset: Dataset) -> DatasetStats:
    """Count everything in the dataset, one record at a time.

    Raises:
        DataError: a record violates the format.
    """
    stats = DatasetStats(dataset.name, str(dataset.path), dataset.sha256, dataset.content_sha256)
    benchmark = benchmark_of(dataset)
    groups: dict[tuple[str, tuple[tuple[str, int], ...]], GroupCount] = {}
    asked: defaultdict[str, list[tuple[Question, Gold]]] = defaultdict(list)
    for question in dataset.questions():
        gold = dataset.gold(question.question_id)
        _count_question(stats, gold)
        asked[question.haystack_id] += [] if benchmark.stand_in_dates else [(question, gold)]
        if gold.facets:
            key = gold.question_type, tuple(gold.facets.items())
            groups.setdefault(key, GroupCount(gold.question_type, gold.facets)).questions += 1
    stats.groups = [groups[key] for key in sorted(groups)]
    for haystack in dataset.haystacks():
        if haystack.sessions:
            _count_haystack(stats, haystack)
            _count_misleading(stats, haystack, asked[haystack.haystack_id])
        # Otherwise the next haystack would be read while the name still holds this one: two large ones in memory.
        del haystack
    if stats.haystacks:
        stats.mean_sessions = stats.sessions / stats.haystacks
        stats.mean_turns = stats.turns / stats.sessions
    stats.copy = benchmark.copy(dataset) if benchmark.copy else None
    stats.stand_in_dates = benchmark.stand_in_dates
    stats.quirks = benchmark.quirks(dataset) if benchmark.quirks else None
    return stats


def _count_question(stats: DatasetStats, gold: Gold) -> None:
    count = stats.by_type.setdefault(gold.question_type, TypeCount())
    stats.questions += 1
    count.total += 1
    count.abstention += gold.abstention
    stats.integer_answers += type(gold.answer) is int
    stats.evidence_sessions += len(gold.evidence_sessions)
    stats.evidence_turns += len(gold.evidence_turns)


def _count_misleading(stats: DatasetStats, haystack: Haystack, asked: Sequence[tuple[Question, Gold]]) -> None:
    """Count what breaks no rule but can mislead; evidence is looked for by session."""
    dates = {session.session_id: session.date for session in haystack.sessions}
    for question, gold in asked:
        later = {session_id for session_id, date in dates.items() if date > question.date}
        stats.questions_before_last_session += bool(later)
        stats.questions_with_later_evidence += not later.isdisjoint(gold.evidence_sessions)
    seen = {tuple((turn.role, turn.content) for turn in session.turns) for session in haystack.sessions}
    stats.duplicated_sessions += len(haystack.sessions) - len(seen)


def _count_haystack(stats: DatasetStats, haystack: Haystack) -> None:
    sessions = len(haystack.sessions)
    lengths = [len(session.turns) for session in haystack.sessions]
    first, last = haystack.sessions[0].date, haystack.sessions[-1].date
    stats.fewest_sessions = min(stats.fewest_sessions, sessions) if stats.haystacks else sessions
    stats.most_sessions = max(stats.most_sessions, sessions)
    stats.fewest_turns = min(stats.fewest_turns, *lengths) if stats.haystacks else min(lengths)
    stats.most_turns = max(stats.most_turns, *lengths)
    stats.first_session = min(first, stats.first_session or first)
    stats.last_session = max(last, stats.last_session or last)
    stats.haystacks += 1
    stats.sessions += sessions
    stats.turns += sum(lengths)
    stats.captions += sum(turn.caption is not None for session in haystack.sessions for turn in session.turns)
