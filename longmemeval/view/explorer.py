"""The recall explorer: what a memory would recall for any question, with any settings, without a chat model."""

from collections.abc import Mapping, Sequence
from threading import Lock
from types import UnionType
from typing import Literal, Union, get_args, get_origin

from msgspec import Struct, structs

from longmemeval.core.text.figures import count
from longmemeval.core.text.paths import without_places
from longmemeval.errors import HarnessError
from longmemeval.llm.tokens import token_counter
from longmemeval.memory.configuration import (
    MEMORIES,
    MemoryConfiguration,
    chosen_parameters,
    definition_of,
    resolve_configuration,
)
from longmemeval.pipeline.inspect.recalling import Explained, Recaller, why_not_again
from longmemeval.records import Question, RecalledItem
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.settings import Folders
from longmemeval.view.question.evidence import Evidence

__path__: list[str] = []
"""Names of version 0.2 below this one are found (`core/moved.py`)."""


# Recall for a question with the settings of an address; evidence is marked afterwards.

_LISTED = 80
"""The number of pieces listed; evidence is listed beyond it."""
_MAX_QUOTED = 300


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
    text = item.text if len(item.text) <= _MAX_QUOTED else f"{item.text[:_MAX_QUOTED]} …"
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


# Convert the settings of a memory to fields of a form, and back.

PREFIX = "set."
"""The prefix of the names of settings in an address: `set.top_k=20`."""
_FIRST = ("top_k", "message_range", "last_messages", "budget")
"""The settings changed most often, in this order; the others follow in their own."""


class Field(Struct, frozen=True):
    """One setting that can be changed."""

    name: str
    value: str
    """The current value; empty if not set, such as no budget."""
    usual: str
    """The value if the address does not set it."""
    kind: Literal["integer", "number", "choice"]
    options: tuple[str, ...]
    """The options of a choice."""
    words: str


def memories_to_try() -> list[str]:
    """Return the memories that can recall here, by name."""
    return [name for name in MEMORIES.built_in if not why_not_again(resolve_configuration(name))]


def configuration_from(
    memory: str, given: Mapping[str, str], like: Sequence[MemoryConfiguration]
) -> tuple[MemoryConfiguration, MemoryConfiguration]:
    """Return the memory that an address describes, and the memory that it starts from.

    Args:
        memory: name of the memory.
        given: settings by name, as text; those that the memory does not have are ignored.
        like: memories of runs; the first of that name gives the values that are not set.

    Raises:
        HarnessError: there is no such memory, or a value is invalid.
    """
    start = next((used for used in like if used.preset == memory and not why_not_again(used)), None)
    start = start or resolve_configuration(memory)
    fields = definition_of(start).parameters.model_fields
    changed = [f"{name}={text}" for name, text in given.items() if name in fields and text]
    unset = [name for name, text in given.items() if name in fields and not text]
    own = chosen_parameters(start)
    unchanged = [f"{name}={_to_yaml(value)}" for name, value in own.items() if name not in unset]
    return resolve_configuration(memory, [*unchanged, *changed]), start


def fields_of(configuration: MemoryConfiguration, start: MemoryConfiguration) -> list[Field]:
    """Return the settings of a memory that are numbers or words to choose from.

    Args:
        configuration: the memory with the current values.
        start: the memory with the usual values.
    """
    fields = []
    for name, declared in definition_of(configuration).parameters.model_fields.items():
        kind, options = _kind(declared.annotation)
        if kind is not None:
            value, usual = configuration.parameters.get(name), start.parameters.get(name)
            words = (declared.description or "").partition("\n")[0]
            fields.append(Field(name, _text(value), _text(usual), kind, options, words))
    places = {name: place for place, name in enumerate(_FIRST)}
    return sorted(fields, key=lambda field: places.get(field.name, len(_FIRST)))


def _kind(annotation: object) -> tuple[Literal["integer", "number", "choice"] | None, tuple[str, ...]]:
    if get_origin(annotation) in (Union, UnionType):
        kinds = [argument for argument in get_args(annotation) if argument is not type(None)]
        return _kind(kinds[0]) if len(kinds) == 1 and get_origin(kinds[0]) is not Literal else (None, ())
    if annotation is int:
        return "integer", ()
    if annotation is float:
        return "number", ()
    if get_origin(annotation) is Literal and all(isinstance(argument, str) for argument in get_args(annotation)):
        return "choice", get_args(annotation)
    return None, ()


def _text(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _to_yaml(value: object) -> str:
    return "null" if value is None else str(list(value)) if isinstance(value, list | tuple) else str(value)
