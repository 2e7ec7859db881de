"""The specification of a benchmark, registered under `longmemeval.benchmarks`. Nothing else in the harness names one.

A folder under `longmemeval/benchmarks/`, or another package, holds a `Benchmark` and all the code that is specific to
it. Omitted fields have defaults that suit any data: see docs/add-a-benchmark.md.
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
    from longmemeval.reading.options import ReadingMethod
    from longmemeval.reading.prompts import Compose


class Sniffed(Struct, frozen=True):
    """Facts about data that are known before it is loaded."""

    path: Path
    is_folder: bool = False
    keys: frozenset[str] = frozenset()
    """Keys of the first record of a JSON file (an array of records or a single one), or columns of a Parquet file."""


@dataclass(frozen=True)
class OfficialAnswering:
    """The authors' way of asking a model their questions (`run --protocol official`)."""

    record: Callable[[int, Any, bool], dict[str, Any]]
    """Maps a seed, the result of `load_texts` or None, and whether the memory recalls everything, to the record of the
    protocol in the manifest, `settings.protocol`, from which the questions are made."""
    note: Callable[[Mapping[str, Any], bool], str]
    """Maps the record, and whether the score is the benchmark's own, to the note in tables of such runs."""
    questions: Callable[[Dataset, Sequence[Question], Mapping[str, Any]], list[Question]] = (
        lambda dataset, questions, record: list(questions)
    )
    """Maps the data, the questions and the record to the questions with `appended` and `options`."""
    compose: Callable[[Any, Path, Mapping[str, Any]], Compose] | None = None
    """Maps the data, the data folder and the record to a composer of whole prompts, for authors whose prompts are not
    templates; raises a `HarnessError` if their texts are missing."""
    reading: ReadingMethod = "direct"
    """Reading method, unless the user names one; with `compose` the only one."""
    max_tokens: int | None = None
    """Maximum tokens of an answer, unless the user names a number; None: the reading method's default."""
    temperature: float = 0.0
    load_texts: Callable[[Path], Any] | None = None
    """Reads a file of the authors' own prompts; None: there is no such file."""
    text_endings: tuple[str, ...] = ()
    """Endings of the names of such files."""
    recorded_texts: Callable[[Mapping[str, Any]], Any] | None = None
    """Maps the record to the result of `load_texts` for it."""
    prompts: Callable[[Any], tuple[str, str]] | None = None
    """Returns the prompt in the texts, and the one for questions with options; placeholders are the reader's."""


@dataclass(frozen=True)
class Benchmark:
    """One benchmark."""

    name: str
    """Name under which it is registered."""
    title: str
    """Title as its authors write it."""
    claims: Callable[[Sniffed], bool]
    """Returns whether data is in the format of this benchmark. Only one benchmark may claim the data."""
    load: Callable[..., Dataset]
    """Maps a path, a name (empty: the file's) and the `options` to the data; raises `DataError`. Cheap to call."""
    shape: str = ""
    """Description of the data format: `records with question_id, question and more`."""
    options: frozenset[str] = frozenset()
    """Keyword arguments of `load`."""
    licence: str = ""
    """Licence of the data."""
    citation: str | None = None
    """BibTeX of the paper."""
    catalogue: Path | None = None
    """File with a JSON list of `CatalogueEntry`; files without a source are in the same folder."""
    types: QuestionTypes = ANY_TYPES
    """Question types: their order, and the ability that each requires."""
    default_judge: str = "offline/lexical"
    """Spec of the judge with which its authors grade."""
    prompts: str = "strict"
    """Prompts of a judge named by its chat model alone: a name registered under `longmemeval.judges`."""
    planting: Planting | None = None
    """Rules for answers known to be right or wrong, for `judge check`: `answer_planting()` if the gold is an answer.
    None: there are none, so no judge can be checked on the benchmark and no score is corrected."""
    log_judge: str = ""
    """The model whose judged logs the authors' own script accepts; empty without such a script."""
    answering: OfficialAnswering | None = None
    """The authors' protocol for answers; None: they have none."""
    gold_as_asked: Callable[[Gold, Question], Gold] | None = None
    """Returns the gold of a question as it was asked: without options, for instance, it has another type."""
    retrieval: RetrievalRules = field(default_factory=RetrievalRules)
    """Scoring of rankings."""
    official_retrieval: OfficialScoring | OfficialRanking | None = None
    """The authors' protocol (`retrieval --protocol official`); None: they have none."""
    audits: Path | None = None
    """File with a JSON list of `NamedAudit`, the published audits of its labels; None: none is known."""
    audit_id: Callable[[str, Sequence[str]], str] | None = None
    """Maps an id in a published audit, and the ids of all haystacks, to the id of the question."""
    quirks: Callable[[Any], Struct] | None = None
    """Counts oddities of the data that break no rule but can mislead."""
    copy: Callable[[Any], str] | None = None
    """Returns the name of the copy, of several in circulation, that the data is."""
    unit: Callable[[Any, Question], str] | None = None
    """Maps the data and a question to the name of the group to resample whole; None: the question's haystack."""
    stand_in_dates: bool = False
    """True if the data has no dates, and the dates of its sessions only define an order."""
    footnotes: Mapping[str, str] = field(default_factory=dict)
    """Notes for tables that show questions of a type, by type."""

    def notes_on(self, types: Iterable[str]) -> list[str]:
        """Return the notes for a table that shows questions of these types."""
        shown = set(types)
        return list(dict.fromkeys(note for name, note in self.footnotes.items() if name in shown))
