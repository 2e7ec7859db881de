"""What a benchmark says of itself: the door `longmemeval.benchmarks`. Nothing else in the harness names one.

A folder under `longmemeval/benchmarks/`, or a package of others, holds a `Benchmark` and all the code that is
the benchmark's own. What is left out gets a default that fits any data: see docs/add-a-benchmark.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from longmemeval.benchmarks.retrieval_protocols import OfficialRanking, OfficialScoring, RetrievalRules
from longmemeval.dataset import Dataset
from longmemeval.judges.plants.planting import Planting
from longmemeval.judges.question_types import ANY_TYPES, QuestionTypes
from longmemeval.records import Gold, Question

if TYPE_CHECKING:
    from longmemeval.reading.prompts import Compose
    from longmemeval.reading.reader import ReadingMethod


class Sniffed(Struct, frozen=True):
    """What is known of data before anybody reads it."""

    path: Path
    is_folder: bool = False
    keys: frozenset[str] = frozenset()
    """Of the first record of a JSON file, be it an array of records or one; empty where there is none."""


@dataclass(frozen=True)
class OfficialAnswering:
    """How the authors put their questions to a model (`run --protocol official`)."""

    record: Callable[[int, Any, bool], dict[str, Any]]
    """From a seed, what `load_texts` gave or None, and whether the memory recalls everything, to what the manifest says
    under `settings.protocol`: all that the questions are made from."""
    note: Callable[[Mapping[str, Any], bool], str]
    """From the record, and whether the score is the benchmark's own, to what tables of such runs have to say."""
    questions: Callable[[Dataset, Sequence[Question], Mapping[str, Any]], list[Question]] = (
        lambda dataset, questions, record: list(questions)
    )
    """From the data, the questions and the record to the questions with `appended` and `options`."""
    compose: Callable[[Any, Path, Mapping[str, Any]], Compose] | None = None
    """From the data, the data folder and the record to what makes whole prompts, for authors whose prompts are no
    template; raises a `HarnessError` where their words are not at hand."""
    reading: ReadingMethod = "direct"
    """The reading method, where the user names none; under `compose` the only one."""
    max_tokens: int | None = None
    """Of an answer, where the user names none; None: as the reading method has it."""
    temperature: float = 0.0
    load_texts: Callable[[Path], Any] | None = None
    """Reads a file of the authors' own words; None: there is no such file."""
    text_endings: tuple[str, ...] = ()
    """How the names of such files end."""
    recorded_texts: Callable[[Mapping[str, Any]], Any] | None = None
    """From the record to what `load_texts` gave for it."""
    prompts: Callable[[Any], tuple[str, str]] | None = None
    """The prompt of the texts, and that of questions with options; the places are the reader's."""


@dataclass(frozen=True)
class Benchmark:
    """One benchmark."""

    name: str
    """As it is registered."""
    title: str
    """As its authors write it."""
    claims: Callable[[Sniffed], bool]
    """Whether data is of its shape. Of all benchmarks one alone may claim it."""
    load: Callable[..., Dataset]
    """From a path, a name (empty: the file's) and the `options` to the data; raises `DataError`. Cheap to call."""
    shape: str = ""
    """What its data looks like, in words: `records with question_id, question and more`."""
    options: frozenset[str] = frozenset()
    """Keyword arguments of `load`."""
    licence: str = ""
    """Of the data."""
    citation: str | None = None
    """BibTeX of the paper."""
    catalogue: Path | None = None
    """A JSON list of `CatalogueEntry`; files without a source are beside it."""
    types: QuestionTypes = ANY_TYPES
    """Its question types: their order, and what ability each asks for."""
    default_judge: str = "offline/lexical"
    """The spec of the judge that its authors grade with."""
    prompts: str = "strict"
    """The prompts of a judge that is named by its chat model alone: a name of the door `longmemeval.judges`."""
    planting: Planting | None = None
    """How answers of known truth are made for `judge check`: `answer_planting()` where the gold is an answer. None: it
    says nothing of them, so that no judge can be checked on it and no score is corrected."""
    log_judge: str = ""
    """The model whose judged logs the authors' own script takes; empty where there is no such script."""
    answering: OfficialAnswering | None = None
    """None: its authors have no protocol of their own."""
    gold_as_asked: Callable[[Gold, Question], Gold] | None = None
    """The gold of a question as it was asked: without options, say, it is of another type."""
    retrieval: RetrievalRules = field(default_factory=RetrievalRules)
    """How rankings are scored."""
    official_retrieval: OfficialScoring | OfficialRanking | None = None
    """Its authors' protocol (`retrieval --protocol official`); None: they have none."""
    audit_id: Callable[[str, Sequence[str]], str] | None = None
    """From an id in a published audit, and the ids of all haystacks, to the id of the question."""
    quirks: Callable[[Any], Struct] | None = None
    """Counts the oddities of its data that break no rule but can mislead."""
    copy: Callable[[Any], str] | None = None
    """Which of several copies in circulation the data is."""
    stand_in_dates: bool = False
    """Whether the data has no dates, and those of its sessions only give them an order."""
    footnotes: Mapping[str, str] = field(default_factory=dict)
    """What tables have to say where they show questions of a type."""
    published: Path | None = None
    """Figures that papers print (`report/published.py`)."""

    def notes_on(self, types: Iterable[str]) -> list[str]:
        """What a table that shows questions of these types has to say."""
        shown = set(types)
        return [note for name, note in self.footnotes.items() if name in shown]
