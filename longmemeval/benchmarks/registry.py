"""Datasets by name or path."""

import json
import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from longmemeval.benchmarks.catalogue import (
    BENCHMARK_SPECS,
    CatalogueEntry,
    Source,
    benchmark_of,
    benchmarks,
    broken_benchmarks,
    by_hand,
    catalogue,
    catalogue_entry,
    data_file,
    folder_missing,
    folder_state,
)
from longmemeval.benchmarks.data_files import end_of_value, foreign_form
from longmemeval.benchmarks.repository import changed_files
from longmemeval.benchmarks.spec import Benchmark, Sniffed
from longmemeval.core.files import sha256_file
from longmemeval.core.remote.places import anchored
from longmemeval.core.tables.parquet import MAGIC, parquet_keys
from longmemeval.core.text.figures import count_of
from longmemeval.core.text.words import is_foreign
from longmemeval.dataset import Dataset
from longmemeval.errors import DataError, HarnessError, IntegrityError, nearest
from longmemeval.judges.definition import JUDGE_DEFINITIONS, compares_words, rule_names, rules_of, set_names
from longmemeval.judges.protocol import Judge
from longmemeval.judges.template_set import FILE_ENDINGS, TemplateJudge, choices, load_template_set
from longmemeval.judges.votes import AdjustedJudge, RepeatedJudge, VotingJudge
from longmemeval.llm.http.endpoints import served_at
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatModel
from longmemeval.llm.reasoning import judge_rule
from longmemeval.records import Gold, Question
from longmemeval.settings import Folders

_BEFORE_RECORD = re.compile(rb"\s*\[?\s*")
_FIRST_KEY = re.compile(rb'\s*\[?\s*\{\s*"(\w+)"')
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_FIRST_PIECE = 1 << 20
_LONGEST_RECORD = 1 << 26


def load_dataset(name_or_path: str | Path, data_dir: Path | None = None, **options: object) -> Dataset:
    """Open a dataset. A file is recognised by its benchmark, mostly by the keys of its first record.

    Args:
        name_or_path: a catalogue name (a `str`), else the path of a file, or folder, in the format of some benchmark.
        data_dir: folder of downloaded files; None: the current default.
        options: options of the benchmark's loader; LoCoMo's takes `captions` (False: without the captions of shared
            pictures) and `allow_tainted` (True: also the copy in which a caption was edited to contain a gold answer).

    Returns:
        A `Dataset`.

    Raises:
        DataError: the name is unknown, or the data is missing, invalid, of another size than in the catalogue, or in
            the format of no known benchmark or of two.
    """
    if isinstance(name_or_path, str) and not is_path(name_or_path):
        entry = catalogue_entry(name_or_path)
        name, path = entry.name, _present(entry, data_dir or Folders().data_dir)
    else:
        name, path = "", anchored(Path(name_or_path))
    benchmark = _claimant(path)
    for option in options:
        if option not in benchmark.options:
            what = f"Data of {benchmark.title} has no option '{option}'"
            raise DataError(what, fix=nearest(option, benchmark.options) if benchmark.options else "Leave it out")
    try:
        return benchmark.load(path, name, **options)
    except HarnessError:
        raise
    except Exception as error:
        if benchmark.name in BENCHMARK_SPECS.built_in:
            raise
        what = f"The loader of {benchmark.title} failed with {type(error).__name__}: {error}"
        raise DataError(what, where=str(path), fix="Correct the data, or that benchmark's code") from error


def is_path(text: str) -> bool:
    """Return whether `text` is a path: not a catalogue name, and it exists, has a separator or ends in `.json`."""
    if text in catalogue():
        return False
    return "/" in text or "\\" in text or text.endswith(".json") or os.path.exists(text)


def _claimant(path: Path) -> Benchmark:
    """Return the benchmark that claims the data; without records the first one, whose loader reports the error."""
    # Not `path.is_dir()`, which raises an error for a name that is too long.
    sniffed = Sniffed(path, is_folder=True) if os.path.isdir(path) else Sniffed(path, keys=_keys_of_first_record(path))
    claimants = [benchmark for benchmark in benchmarks() if _claims(benchmark, sniffed)]
    if len(claimants) > 1:
        raise DataError(
            f"Several benchmarks claim this data: {', '.join(claimant.name for claimant in claimants)}",
            where=str(path),
            fix="Uninstall the package of one of them, or make it claim less",
        )
    if not claimants and (sniffed.is_folder or sniffed.keys):
        raise _unknown_shape(sniffed)
    return claimants[0] if claimants else benchmarks()[0]


def _unknown_shape(sniffed: Sniffed) -> DataError:
    form = None if sniffed.is_folder else foreign_form(sniffed.path)
    kind = "The folder" if sniffed.is_folder else f"The file ({form[0]})" if form else "The file"
    keys = f": the keys of its first record are {sorted(sniffed.keys)[:12]}" if sniffed.keys else ""
    known = "; ".join(f"{spec.title}: {spec.shape}" for spec in benchmarks() if spec.shape)
    return DataError(
        f"{kind} is not in the format of any known benchmark{keys}",
        where=str(sniffed.path),
        fix=". ".join([f"Known formats: {known}", *broken_benchmarks()]),
    )


def _keys_of_first_record(path: Path) -> frozenset[str]:
    """Return the keys of the first record of an array, or of an object, without reading the whole file.

    If the record is cut off, or longer than `_LONGEST_RECORD`, return only its first key, since a whole file can be one
    record. Return none without a record, and the columns for a Parquet file.
    """
    data, size = b"", _FIRST_PIECE
    # The loader explains why a file cannot be read.
    with suppress(OSError, ValueError), path.open("rb") as handle:
        while len(data) < _LONGEST_RECORD and (piece := handle.read(size)):
            if not data and piece.startswith(MAGIC):
                return parquet_keys(path)
            if not data:
                piece = piece.removeprefix(BOM_UTF8)
            data += piece
            size = 3 * len(data)
            if record := _first_record(data):
                return frozenset(record)
    first = _FIRST_KEY.match(data)
    return frozenset({first[1].decode()}) if first else frozenset()


def _claims(benchmark: Benchmark, sniffed: Sniffed) -> bool:
    try:
        return bool(benchmark.claims(sniffed))
    except Exception:
        if benchmark.name in BENCHMARK_SPECS.built_in:
            raise
        # A benchmark whose check fails must not affect the data of others.
        return False


def _first_record(data: bytes) -> Mapping[str, object] | None:
    """Return the first object of a text or array that begins with `data`; None if its end is not in `data`."""
    before = _BEFORE_RECORD.match(data)
    view = memoryview(data)[before.end() if before else 0 :]
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _KEYS.decode(view[: end_of_value(view)])
    # A truncated record, or one that only Python's own reader accepts (`NaN`).
    try:
        record, _ = json.JSONDecoder().raw_decode(str(view, "utf-8", "ignore"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _present(entry: CatalogueEntry, data_dir: Path) -> Path:
    """Return the entry's file if it has the right size; the slow check of its hash is left to `datasets verify`."""
    path = data_file(entry, data_dir)
    if entry.is_folder and folder_state(path) != "yes":
        raise folder_missing(entry, path)
    if entry.source is None:
        return path
    if not path.is_file():
        fix = f"Run `longmemeval datasets download {entry.name}`, or {by_hand(entry.source, path)}"
        raise DataError(f"The dataset {entry.name!r} is not downloaded", where=str(path), fix=fix)
    size = path.stat().st_size
    if size != entry.source.bytes:
        raise DataError(
            f"The file of {entry.name!r} differs from the catalogue: {size:,} bytes, not {entry.source.bytes:,}",
            where=str(path),
            fix=f"Run `longmemeval datasets download {entry.name}` to replace it, or load another file by its path",
        )
    return path


# Loading the judge for a spec that the user writes.
#
# | spec | judge | |---|---| | a name of rules, such as `offline/lexical` | these rules, no model | | `MODEL` | the
# benchmark's own prompts on this chat model | | `SET@MODEL` | other prompts: registered under `longmemeval.judges`,
# or a template set of the user's own |

FOREIGN_SHARE = 0.05
"""Share of questions in other languages from which scores by English words get a warning."""
_SCRIPTED = "offline/scripted:"


def default_judge_of(dataset: Dataset) -> str:
    """Return the judge that grades answers to a dataset if none is named.

    Raises:
        HarnessError: it compares English words, and the data are not in English.
    """
    spec = benchmark_of(dataset).default_judge
    rules = rules_of(spec)
    if rules and compares_words(rules.identity) and (foreign := foreign_part(dataset)):
        raise HarnessError(
            f"The default judge {spec} compares English words, and {foreign} of '{dataset.name}' are not in English",
            fix=f"Name a chat model with --judge MODEL. --judge {spec} grades by English words nevertheless",
        )
    return spec


def foreign_part(dataset: Dataset) -> str:
    """Return how many questions of a dataset are not in English; empty if it is English."""
    questions = list(dataset.questions())
    foreign = foreign_questions(questions, dataset.gold)
    number = count_of(len(questions), "question")
    return f"{len(foreign):,} of {number}" if are_foreign(foreign, len(questions)) else ""


def foreign_questions(questions: Iterable[Question], gold: Callable[[str], Gold]) -> frozenset[str]:
    """Return the ids of the questions that are not in English, or whose gold is not."""
    return frozenset(
        question.question_id
        for question in questions
        if is_foreign(question.text) or is_foreign(str(gold(question.question_id).answer))
    )


def are_foreign(foreign: Collection[str], questions: int) -> bool:
    """Return whether so many of the questions are foreign that scores by English words suffer."""
    return len(foreign) >= max(1.0, FOREIGN_SHARE * questions)


def load_judge(
    spec: str,
    model_factory: Callable[[str], ChatModel],
    *,
    benchmark: Benchmark,
    votes: int = 1,
    repeat: int = 1,
    options: ModelOptions = ModelOptions(),
    data_dir: Path | None = None,
) -> Judge:
    """Return the judge that `spec` names.

    Args:
        spec: as in the table above; models are chat models (`openai/gpt-4o-2024-08-06`, `offline/scripted:FILE`).
        model_factory: makes the chat model of a spec.
        benchmark: the benchmark whose prompts a model without a set gets.
        votes: number of votes of the model on each answer, 1 or an odd number.
        repeat: number of this grading of the same answers; from 2 on the judge has its own id.
        options: connection options of the model; its address is part of the judge.
        data_dir: the data folder, with the authors' texts; None: from the environment.

    Raises:
        HarnessError: no such rules or template set (names the nearest), a faulty set, an even number of votes,
            more than one vote or grading for rules, or the factory knows no such model.
    """
    if votes < 1 or repeat < 1:
        raise HarnessError(
            f"A judge cannot grade {min(votes, repeat)} times", fix="Use votes and repeats of at least 1"
        )
    make = JUDGE_DEFINITIONS.get(spec).rules if spec in JUDGE_DEFINITIONS else None
    if make:
        if votes > 1 or repeat > 1:
            what = f"'{spec}' gives the same labels every time"
            raise HarnessError(what, fix="Grade once; votes and --rejudge are for chat models")
        return make()
    judge = _model_judge(spec, model_factory, benchmark, options, data_dir or Folders().data_dir)
    if votes > 1:
        judge = VotingJudge(judge, votes)
    return RepeatedJudge(judge, repeat) if repeat > 1 else judge


def _model_judge(
    spec: str, model_factory: Callable[[str], ChatModel], benchmark: Benchmark, options: ModelOptions, data_dir: Path
) -> Judge:
    name, model = _split(spec, benchmark.prompts)
    if not model or (model.startswith("offline/") and not model.startswith(_SCRIPTED)):
        raise HarnessError(f"Unknown judge '{spec}'", fix=nearest(model, [*rule_names(), f"{_SCRIPTED}FILE"]))
    prompts = JUDGE_DEFINITIONS.get(name).prompts if name in JUDGE_DEFINITIONS else None
    if prompts:
        judge = prompts.judge(model_factory(model), served_at(model, options), data_dir)
    else:
        templates = load_template_set(name, choices([known.types for known in benchmarks()]))
        judge = TemplateJudge(templates, model_factory(model), served_at(model, options))
    adjustments = judge_rule(model, options)
    return AdjustedJudge(judge, adjustments) if adjustments else judge


def _split(spec: str, own_set: str) -> tuple[str, str]:
    """Return prompts and model of a spec. A model's name can contain an `@` too (`claude-3-5-sonnet@20240620`)."""
    left, at, right = spec.partition("@")
    if at and (left.endswith(FILE_ENDINGS) or (left in JUDGE_DEFINITIONS and not rules_of(left))):
        if not right:
            raise HarnessError(f"The judge '{spec}' has no model", fix=f"Write {left}@MODEL")
        return left, right
    # No provider's name contains an `@`, so the part before it was meant to be a set.
    if "/" in right and "/" not in left:
        raise HarnessError(
            f"Unknown template set '{left}'",
            where=f"judge '{spec}'",
            fix=f"{nearest(left, set_names())}, or a file that ends in {' or '.join(FILE_ENDINGS)}",
        )
    return own_set, spec


# Check that data is here and unchanged since its publication, for `datasets list` and `datasets verify`.


class VerifiedData(Struct, frozen=True):
    """Data that has passed the check: it matches the catalogue, or every record is in its format."""

    path: str
    bytes: int
    """Total size of the files in bytes."""
    sha256: str
    content_sha256: str | None
    """Hash of the content, independent of its form; None if only the catalogue's hash was compared."""
    pinned: bool
    """True if size and hash match the catalogue; the records were not read in that case."""
    questions: int | None
    """Number of questions read; None if `pinned`."""


def verify_data(name_or_path: str, data_dir: Path) -> VerifiedData:
    """Check the hash of a dataset against the catalogue or, if none is pinned, every record against the format.

    Args:
        name_or_path: a catalogue name, else the path of a file or folder.
        data_dir: folder of downloaded files.

    Raises:
        DataError: the name is unknown, the data is absent, or a record does not match the format.
        IntegrityError: a file is not that of the catalogue.
    """
    entry = None if is_path(name_or_path) else catalogue_entry(name_or_path)
    if entry and entry.source:
        path = data_file(entry, data_dir)
        for place, source in entry.sources(path):
            _check_pinned(entry.name, source, place)
        size = sum(source.bytes for _, source in entry.sources(path))
        return VerifiedData(str(path), size, entry.source.sha256, None, pinned=True, questions=None)
    if entry:
        _check_repository(entry, data_dir)
    dataset = load_dataset(name_or_path, data_dir)
    size = sum(file.stat().st_size for file in dataset.files)
    return VerifiedData(
        str(dataset.path), size, dataset.sha256, dataset.content_sha256, pinned=False, questions=len(dataset)
    )


def presence(entry: CatalogueEntry, data_dir: Path) -> Literal["yes", "in part", "no", "damaged", "shipped", "missing"]:
    """Return whether an entry's data is here, judged by size alone; hashing is left to `verify_data`."""
    path = data_file(entry, data_dir)
    if entry.is_folder:
        return folder_state(path)
    if entry.source is None:
        return "shipped" if path.is_file() else "missing"
    sources = entry.sources(path)
    if not all(place.is_file() for place, _ in sources):
        return "in part" if path.is_file() else "no"
    return "yes" if all(place.stat().st_size == source.bytes for place, source in sources) else "damaged"


def _check_repository(entry: CatalogueEntry, data_dir: Path) -> None:
    """Compare every file with the commit of the catalogue, if it was fetched from there."""
    changed = changed_files(entry.repository, data_dir / entry.repository.folder) if entry.repository else None
    if changed:
        what = f"{len(changed)} files of {entry.name!r} are missing or differ from the pinned commit"
        fix = f"Run `longmemeval datasets download {entry.name}` to get them"
        raise IntegrityError(what, where=str(changed[0]), fix=fix)


def _check_pinned(name: str, source: Source, path: Path) -> None:
    """Compare size and hash of a file with the catalogue."""
    fix = f"Run `longmemeval datasets download {name}` to get it"
    if not path.is_file():
        raise DataError(f"The dataset {name!r} is not downloaded", where=str(path), fix=fix)
    size = path.stat().st_size
    if size != source.bytes:
        what = f"The file of {name!r} has {size:,} bytes, but the catalogue says {source.bytes:,}"
        raise IntegrityError(what, where=str(path), fix=fix)
    if (found := sha256_file(path)) != source.sha256:
        what = f"The file of {name!r} has the sha256 {found}, but the catalogue says {source.sha256}"
        raise IntegrityError(what, where=str(path), fix=fix)
