"""Recall for a question with the settings of an address; what is evidence is marked afterwards."""

from collections.abc import Sequence
from threading import Lock

from msgspec import Struct, structs

from longmemeval.core.text.figures import count
from longmemeval.errors import HarnessError
from longmemeval.llm.tokens import token_counter
from longmemeval.memory.configuration import MemoryConfiguration
from longmemeval.pipeline.inspect.recalling import Explained, Recaller, why_not_again
from longmemeval.records import Question, RecalledItem
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.settings import Folders
from longmemeval.view.question.evidence import Evidence

_LISTED = 80
"""Pieces that are listed, evidence always among them."""
_SHOWN = 300


class FoundLine(Struct, frozen=True):
    """One piece that was recalled."""

    kind: str
    rank: int | None
    score: float | None
    ingredients: tuple[float | None, ...]
    """In the order of the names; None where it has none."""
    date: str
    speaker: str
    text: str
    evidence: bool


class Exploration(Struct, frozen=True):
    """What a memory recalls for a question."""

    problem: str
    lines: tuple[FoundLine, ...] = ()
    """Best first, then what came with them."""
    names: tuple[str, ...] = ()
    """Of the ingredients of a score."""
    more: int = 0
    tokens: str = ""
    messages: int = 0
    found: int = 0
    """Pieces of the evidence that were recalled."""
    there: int = 0
    """All of them; 0 where the data name none."""
    first: int | None = None
    """Best rank of a piece of evidence."""
    left_out: int = 0
    """Messages that were found and did not fit the budget."""
    notes: tuple[str, ...] = ()


class Recallers:
    """Recallers by data, preparation and counter, each kept open.

    Args:
        folders: the folders.
    """

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._lock = Lock()
        self._made: dict[tuple[str, str, str], Recaller] = {}

    def of(self, run: Evaluation) -> Recaller | None:
        """Return the one that recalls as a run did; None where nothing was prepared for it."""
        settings = run.manifest.settings
        if not settings.preparation:
            return None
        dataset = run.asked.dataset
        key = (dataset.sha256, settings.preparation, settings.model_name)
        with self._lock:
            if key not in self._made:
                counter = token_counter(settings.model_name or "offline/extractive")
                self._made[key] = Recaller(dataset, settings.preparation, self._folders, counter)
            return self._made[key]


def explore(
    recaller: Recaller, question: Question, text: str, configuration: MemoryConfiguration, evidence: Evidence
) -> Exploration:
    """Return what a memory recalls.

    Args:
        recaller: of the preparation.
        question: whose history is searched, on whose date.
        text: to ask in its place; empty: its own.
        configuration: the memory.
        evidence: of the question; the memory never sees it.
    """
    if why := why_not_again(configuration):
        return Exploration(why)
    asked = structs.replace(question, text=text.strip() or question.text)
    try:
        explained = recaller.recall(asked, configuration, explain=True)
    except HarnessError as error:
        return Exploration(str(error))
    return _marked(explained, evidence)


def _marked(explained: Explained, evidence: Evidence) -> Exploration:
    recall = explained.recall
    names = tuple(dict.fromkeys(name for parts in explained.ingredients.values() for name in parts))
    ordered = sorted(recall.items, key=lambda item: (item.rank is None, item.rank or 0))
    lines = [_line(item, names, explained, evidence) for item in ordered]
    shown = [line for place, line in enumerate(lines) if place < _LISTED or line.evidence]
    found, there = evidence.found_in(one for item in recall.items for one in item.message_ids)
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
