"""Recall for a question with the settings of an address; evidence is marked afterwards."""

from collections.abc import Sequence
from threading import Lock

from msgspec import Struct, structs

from longmemeval.core.text.figures import count
from longmemeval.core.text.paths import without_places
from longmemeval.errors import HarnessError
from longmemeval.llm.tokens import token_counter
from longmemeval.memory.configuration import MemoryConfiguration
from longmemeval.pipeline.inspect.recalling import Explained, Recaller, why_not_again
from longmemeval.records import Question, RecalledItem
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.settings import Folders
from longmemeval.view.question.evidence import Evidence

_LISTED = 80
"""The number of pieces listed; evidence is listed beyond it."""
_SHOWN = 300


class FoundLine(Struct, frozen=True):
    """One recalled piece."""

    kind: str
    rank: int | None
    score: float | None
    ingredients: tuple[float | None, ...]
    """The ingredients of the score, in the order of `Exploration.names`; None if the piece lacks one."""
    date: str
    speaker: str
    text: str
    evidence: bool


class Exploration(Struct, frozen=True):
    """The recall of a memory for a question."""

    problem: str
    lines: tuple[FoundLine, ...] = ()
    """The ranked pieces, best first, then unranked ones."""
    names: tuple[str, ...] = ()
    """Names of the ingredients of a score."""
    more: int = 0
    tokens: str = ""
    messages: int = 0
    found: int = 0
    """Number of recalled pieces of evidence."""
    there: int = 0
    """Number of all pieces of evidence; 0 if the data label none."""
    first: int | None = None
    """The best rank of a piece of evidence; None if none has a rank."""
    left_out: int = 0
    """Number of messages that were found but did not fit the budget."""
    notes: tuple[str, ...] = ()


class Recallers:
    """A cache of open recallers, by data, preparation and model."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._lock = Lock()
        self._recallers: dict[tuple[str, str, str], Recaller] = {}

    def of(self, run: Evaluation) -> Recaller | None:
        """Return the recaller that recalls as a run did; None if nothing was prepared for the run."""
        settings = run.manifest.settings
        if not settings.preparation:
            return None
        dataset = run.asked.dataset
        key = (dataset.sha256, settings.preparation, settings.model_name)
        with self._lock:
            if key not in self._recallers:
                counter = token_counter(settings.model_name or "offline/extractive")
                self._recallers[key] = Recaller(dataset, settings.preparation, self._folders, counter)
            return self._recallers[key]


def explore(
    recaller: Recaller, question: Question, text: str, configuration: MemoryConfiguration, evidence: Evidence
) -> Exploration:
    """Return what a memory recalls.

    Args:
        question: the question that gives the history to search and the date.
        text: a text to ask in place of the question's own; empty: its own.
        evidence: evidence of the question; the memory never sees it.
    """
    if why := why_not_again(configuration):
        return Exploration(why)
    query = structs.replace(question, text=text.strip() or question.text)
    try:
        explained = recaller.recall(query, configuration, explain=True)
    except HarnessError as error:
        return Exploration(without_places(str(error)))
    return _marked(explained, evidence)


def _marked(explained: Explained, evidence: Evidence) -> Exploration:
    recall = explained.recall
    names = tuple(dict.fromkeys(name for parts in explained.ingredients.values() for name in parts))
    ordered = sorted(recall.items, key=lambda item: (item.rank is None, item.rank or 0))
    lines = [_line(item, names, explained, evidence) for item in ordered]
    shown = [line for place, line in enumerate(lines) if place < _LISTED or line.evidence]
    found, there = evidence.found_in(message_id for item in recall.items for message_id in item.message_ids)
    ranks = [line.rank for line in lines if line.evidence and line.rank is not None]
    return Exploration(
        problem="",
        lines=tuple(shown),
        names=names,
        more=len(lines) - len(shown),
        tokens=count(recall.tokens),
        messages=sum(item.kind == "message" for item in recall.items),
        found=found,
        there=there,
        first=min(ranks, default=None),
        left_out=len(recall.left_out_ids),
        notes=recall.notes,
    )


def _line(item: RecalledItem, names: Sequence[str], explained: Explained, evidence: Evidence) -> FoundLine:
    parts = explained.ingredients.get(item.message_ids[0], {}) if item.message_ids and item.rank is not None else {}
    text = item.text if len(item.text) <= _SHOWN else f"{item.text[:_SHOWN]} …"
    return FoundLine(
        kind=item.kind,
        rank=item.rank,
        score=item.score,
        ingredients=tuple(parts.get(name) if item.kind == "message" else None for name in names),
        date=f"{item.date:%Y-%m-%d}" if item.date else "",
        speaker=item.speaker,
        text=text,
        evidence=any(map(evidence.holds, item.message_ids)),
    )
