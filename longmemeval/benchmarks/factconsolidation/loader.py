"""FactConsolidation: four lists of facts, each a haystack with single-hop and multi-hop questions.

The facts that answer each question are derived by rule from the published lists, without a model. A fact states a
relation of a subject in a sentence template of MQuAKE. The current fact of a relation and subject is the one with the
largest serial number; the others are overruled. A question's relations are those of its template or, with several hops,
the sequence that leads from an entity of the question to the official answer: the only one in 362 of 400 questions,
else that with the longest entity and the fewest hops. `evidence.json` has the serial numbers; they are valid only for
lists with the hashes below.

A file has rows of the split `Conflict_Resolution`: a list of facts, questions about it and their official answers.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.in_memory import InMemoryDataset, read_records
from longmemeval.core.files import sha256_text
from longmemeval.core.text.quantities import stand_in_date
from longmemeval.errors import DataError
from longmemeval.llm.tokens import encoding_counter
from longmemeval.measures.changes import ChangingGold
from longmemeval.records import Haystack, Question, Session, Turn

FACTS_PER_SESSION = 50
ENCODING = "o200k_base"
"""Encoding of gpt-4o-mini, which the authors count with."""


class Layout(Struct, frozen=True):
    """The turns of a list, in sessions."""

    sessions: tuple[tuple[str, ...], ...]
    """Texts of the turns, by session."""
    place: tuple[tuple[int, int], ...]
    """Session and turn of each fact, by serial number."""


def single_facts(facts: Sequence[str]) -> Layout:
    """Return the layout with a turn for each fact, and `FACTS_PER_SESSION` of them in a session."""
    starts = range(0, len(facts), FACTS_PER_SESSION)
    sessions = tuple(tuple(facts[start : start + FACTS_PER_SESSION]) for start in starts)
    return Layout(sessions, tuple(divmod(serial, FACTS_PER_SESSION) for serial in range(len(facts))))


def in_chunks(facts: Sequence[str], tokens: int) -> Layout:
    """Return the layout with a session of one turn for each chunk, with one fact on each line."""
    groups = chunked(facts, tokens)
    place = tuple((number, 0) for number, group in enumerate(groups) for _ in group)
    return Layout(tuple(("\n".join(group),) for group in groups), place)


def chunked(facts: Sequence[str], tokens: int) -> list[list[str]]:
    """Return the facts in groups of at most `tokens` tokens, at least one fact in each."""
    count = encoding_counter(ENCODING).count
    groups: list[list[str]] = []
    room = 0
    for fact in facts:
        size = count(fact) + 1
        if not groups or size > room:
            groups.append([])
            room = tokens
        groups[-1].append(fact)
        room -= size
    return groups


CONTEXT_SHA256 = {
    "6k": "e46cb14b53eedd71bf92762974a597d46b001157b6b769c03865dee9641818a1",
    "32k": "2a44d6ad3264a775596fe6de01994d6b348280303fdd964f82288e2c476a7409",
    "64k": "e2789821b46e66262caa5dd3bfb94d180576212e81819ec283a3e1dfdeabcf80",
    "262k": "9c8ce1ed911d25a3c9d52e5758d9a8d23fa769ded88c5e59dbc1e1a3f6eb1f10",
}
"""Hash of the text of each published list; both kinds of questions of a size share a list."""


class Evidence(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts about one question."""

    hops: tuple[tuple[int, ...], ...]
    """For each hop, the serial number of its current fact and then those of the facts that it overrules."""
    stale_answers: tuple[str, ...]
    """Other answers that the same relations give through an overruled fact."""
    status: Literal["ok", "stale-gold", "dead-end"] = "ok"
    """`ok`: the current facts give the official answer. `stale-gold`: they give another. `dead-end`: they stop before
    the last hop. The official answer then needs an overruled fact."""


@cache
def all_evidence() -> dict[str, Evidence]:
    """Return the evidence by the id of the question without `factconsolidation_`, such as `sh_6k_no0`."""
    return msgspec.json.decode(Path(__file__).with_name("evidence.json").read_bytes(), type=dict[str, Evidence])


KINDS = {"sh": "single-hop", "mh": "multi-hop"}
"""Type of a row's questions by part of its source."""
HEADER = "Here is a list of facts:"

_SOURCE = re.compile(r"factconsolidation_(sh|mh)_(\w+)", re.ASCII)


class _Metadata(Struct, frozen=True):
    source: str
    qa_pair_ids: tuple[str, ...]


class _Row(Struct, frozen=True):
    context: str
    questions: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    metadata: _Metadata


class Row(Struct, frozen=True):
    """The questions of one kind about one list."""

    kind: str
    """`sh` or `mh`."""
    size: str
    """Size in the name of the source, such as `6k`: the id of the haystack."""
    facts: tuple[str, ...]
    """Lines `serial. sentence.`; the serial is the index."""
    context_sha256: str
    questions: tuple[tuple[str, str, str], ...]
    """Id, text and official answer."""


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file.

    Raises:
        DataError: the file is not a JSON array of such rows, or a row belongs to another task of MemoryAgentBench.
    """
    return [_row(path, number, record) for number, record in enumerate(read_records(path), start=1)]


def _row(path: Path, number: int, record: dict[str, Any]) -> Row:
    where = f"{path}, record {number}"
    try:
        row = msgspec.convert(record, _Row)
    except msgspec.ValidationError as error:
        raise DataError(f"The record is not a row of FactConsolidation: {error}", where=where) from None
    match = _SOURCE.fullmatch(row.metadata.source)
    if match is None:
        what = f"The row belongs to another task of MemoryAgentBench, '{row.metadata.source}'"
        raise DataError(what, where=where, fix="Leave only rows whose metadata.source begins with factconsolidation_")
    counts = {len(row.questions), len(row.answers), len(row.metadata.qa_pair_ids)}
    if len(counts) != 1:
        what = "The row has different numbers of questions, answers and metadata.qa_pair_ids"
        raise DataError(what, where=where, fix="Convert the published file again")
    for index, answers in enumerate(row.answers):
        if len(answers) != 1:
            what = f"A question must have one official answer, but this one has {len(answers)}"
            raise DataError(what, where=f"{where}, field answers[{index}]", fix="Convert the published file again")
    golds = (answer for answer, *_ in row.answers)
    return Row(
        kind=match[1],
        size=match[2],
        facts=_facts(where, row.context),
        context_sha256=sha256_text(row.context),
        questions=tuple(zip(row.metadata.qa_pair_ids, row.questions, golds, strict=True)),
    )


def _facts(where: str, context: str) -> tuple[str, ...]:
    header, *facts = context.rstrip("\n").split("\n")
    if header != HEADER or not facts:
        raise DataError(f"The context does not begin with '{HEADER}' and a fact", where=f"{where}, field context")
    for serial, fact in enumerate(facts):
        if not fact.startswith(f"{serial}. "):
            what = f"A line of the context does not begin with its serial number, '{serial}. '"
            raise DataError(what, where=f"{where}, field context, line {serial + 2}", fix="Serials count from 0")
    return tuple(facts)


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
        self.units = connected((name, _needed_facts(row, name)) for row in rows for name, _, _ in row.questions)
        """Name of the group with which a question is resampled, by question id."""

    def fact_gold(self, question_id: str) -> FactGold:
        """Return the gold of `question_id` with the overruled facts; raises `DataError` if there is none."""
        gold = self.gold(question_id)
        assert isinstance(gold, FactGold)
        return gold


def _needed_facts(row: Row, question_id: str) -> list[str]:
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


OFFICIAL_LIMIT = 10


class FactConsolidationQuirks(Struct):
    """Counts of each oddity."""

    questions_without_known_facts: int = 0
    """Questions about another list than the published one, for which the measures of changes have no value."""
    answers_that_need_an_overruled_fact: int = 0
    """Official answers that contradict the rule of the benchmark that the newest fact wins."""
    of_those_multi_hop: int = 0
    questions_without_a_change: int = 0
    """Questions without an overruled fact, which world knowledge or chance may answer."""
    answers_beyond_the_limit: int = 0
    """Official answers of more than the official limit of 10 tokens."""


def factconsolidation_quirks(dataset: FactConsolidationDataset) -> FactConsolidationQuirks:
    """Count the oddities of a file."""
    quirks, count = FactConsolidationQuirks(), encoding_counter(ENCODING).count
    for question in dataset.questions():
        gold = dataset.fact_gold(question.question_id)
        quirks.questions_without_known_facts += not gold.evidence_turns
        quirks.answers_that_need_an_overruled_fact += not gold.consistent
        quirks.of_those_multi_hop += not gold.consistent and gold.question_type == "multi-hop"
        quirks.questions_without_a_change += bool(gold.evidence_turns) and not gold.superseded
        quirks.answers_beyond_the_limit += count(str(gold.answer)) > OFFICIAL_LIMIT
    return quirks
