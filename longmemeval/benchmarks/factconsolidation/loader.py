"""FactConsolidation: four lists of facts, each a haystack with single-hop and multi-hop questions."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from longmemeval.benchmarks.factconsolidation.chunks import Layout, in_chunks, single_facts
from longmemeval.benchmarks.factconsolidation.evidence import CONTEXT_SHA256, Evidence, all_evidence
from longmemeval.benchmarks.factconsolidation.format import KINDS, Row, read_rows
from longmemeval.benchmarks.in_memory import InMemoryDataset
from longmemeval.core.text.calendar_names import stand_in_date
from longmemeval.errors import DataError
from longmemeval.measures.changes import ChangingGold
from longmemeval.records import Haystack, Question, Session, Turn

_PREFIX = "factconsolidation_"


class FactGold(ChangingGold, frozen=True):
    """The official answer, and the facts that were overruled."""

    stale_answers: tuple[str, ...] = ()
    """Other answers that the same relations give through an overruled fact."""


class FactConsolidationDataset(InMemoryDataset):
    """A `Dataset` over rows of FactConsolidation.

    A haystack is a list of facts; its id is the size (`6k`). A turn is one fact with its serial number as printed, and
    a session has 50 of them in the order of the list. **The data has no dates:** session i gets the stand-in day
    2000-01-01 + i days, at midnight, and every question the day after the last.

    Args:
        path: the published Parquet file, or a JSON file with the list of its rows.
        name: the catalogue name; empty: the stem of the file.
        chunk_tokens: size of the authors' chunks, 512 or 4096: a session is then one turn with as many facts as fit,
            and the name ends in `-chunks-<size>`. Chunks are cut between facts, whereas the authors' cut often parts a
            fact from its serial number. 0: a turn is a fact.

    Raises:
        DataError: the file cannot be read, is invalid, or two rows of a size have different lists.
    """

    def __init__(self, path: Path, name: str = "", chunk_tokens: int = 0) -> None:
        rows = read_rows(path)
        lists: dict[str, Row] = {}
        for row in rows:
            if lists.setdefault(row.size, row).facts != row.facts:
                raise DataError(f"Two rows of size {row.size} have different lists of facts", where=str(path))
        self.lists = {size: row.facts for size, row in lists.items()}
        """The facts of each haystack as printed."""
        layouts = {
            size: in_chunks(facts, chunk_tokens) if chunk_tokens else single_facts(facts)
            for size, facts in self.lists.items()
        }
        super().__init__(
            "factconsolidation",
            path,
            (name or path.stem) + (f"-chunks-{chunk_tokens}" if chunk_tokens else ""),
            [_haystack(size, layout) for size, layout in layouts.items()],
            [pair for row in rows for pair in _questions(row, layouts[row.size])],
        )
        self.units = connected((name, _facts(row, name)) for row in rows for name, _, _ in row.questions)
        """Name of the group with which a question is resampled, by question id."""

    def fact_gold(self, question_id: str) -> FactGold:
        """Return the gold of `question_id` with the overruled facts; raises `DataError` if there is none."""
        gold = self.gold(question_id)
        assert isinstance(gold, FactGold)
        return gold


def _facts(row: Row, question_id: str) -> list[str]:
    """Return the names of the facts that a question needs; if they are not known, the name of the whole list."""
    evidence = _evidence(row, question_id)
    return [f"{row.size} {serial}" for hop in evidence.hops for serial in hop] if evidence else [row.size]


def _haystack(size: str, layout: Layout) -> Haystack:
    sessions = (
        Session(f"facts_{index}", *stand_in_date(index), tuple(Turn("user", text) for text in texts))
        for index, texts in enumerate(layout.sessions)
    )
    return Haystack(size, tuple(sessions))


def _questions(row: Row, layout: Layout) -> Iterator[tuple[Question, FactGold]]:
    date = stand_in_date(len(layout.sessions))
    for question_id, text, answer in row.questions:
        gold = _gold(question_id, KINDS[row.kind], answer, _evidence(row, question_id), layout)
        yield Question(question_id, text, *date, row.size), gold


def _evidence(row: Row, question_id: str) -> Evidence | None:
    """Return the evidence of a question; None for another list than the published one."""
    if CONTEXT_SHA256.get(row.size) != row.context_sha256:
        return None
    return all_evidence().get(question_id.removeprefix(_PREFIX))


def _gold(question_id: str, question_type: str, answer: str, evidence: Evidence | None, layout: Layout) -> FactGold:
    if evidence is None:
        return FactGold(question_id, question_type, answer, (), (), abstention=False)
    hops = [tuple(layout.place[serial] for serial in hop) for hop in evidence.hops]
    current = list(dict.fromkeys(hop[0] for hop in hops))
    consistent = evidence.status == "ok"
    return FactGold(
        question_id=question_id,
        question_type=question_type,
        answer=answer,
        evidence_sessions=tuple(dict.fromkeys(f"facts_{session}" for session, _ in current)),
        evidence_turns=tuple(f"facts_{session}:{turn}" for session, turn in current),
        abstention=False,
        facets={"newest wins": int(consistent)},
        superseded=tuple(
            (f"facts_{stale[0]}:{stale[1]}", f"facts_{hop[0][0]}:{hop[0][1]}")
            for hop in hops
            for stale in hop[1:]
            if stale != hop[0]
        ),
        consistent=consistent,
        stale_answers=evidence.stale_answers,
    )


def connected(facts_of: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """Map each question id to that of the first question it is connected with, directly or through others.

    Connected questions are resampled together. Several may need the same fact, such as the founder of a religion: a
    memory that finds it helps them all. With lists as units there would be only four; with questions as units such a
    fact would count several times.

    Args:
        facts_of: question id and the names of its facts, unique across lists.
    """
    above: dict[str, str] = {}
    first_with: dict[str, str] = {}

    def top(question_id: str) -> str:
        while above[question_id] != question_id:
            question_id = above[question_id]
        return question_id

    for question_id, facts in facts_of:
        above[question_id] = question_id
        for fact in facts:
            ours, theirs = top(question_id), top(first_with.setdefault(fact, question_id))
            above[ours] = theirs
    return {question_id: top(question_id) for question_id in above}
