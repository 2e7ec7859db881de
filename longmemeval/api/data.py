"""A dataset with the questions chosen from it, for Python users."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from longmemeval.benchmarks import registry
from longmemeval.core.arguments import checked
from longmemeval.core.files import sha256_bytes, write_atomic
from longmemeval.core.secrets.parameters import public
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, nearest
from longmemeval.memory.configuration import (
    MemoryConfiguration,
    chosen_parameters,
    configuration_of,
    definition_of,
    resolve_configuration,
)
from longmemeval.memory.external.connect import LIVE
from longmemeval.memory.live import live_spec, unhashed
from longmemeval.records import Question
from longmemeval.results.selection import Selection, part_of, select, stratified_order
from longmemeval.settings import Folders

_RECORDS = "records"
_NAME = re.compile(r"[\w.-]{1,60}")


@dataclass(frozen=True, repr=False)
class Data:
    """A dataset and a selection of its questions, which `len()` counts; runs record the selection."""

    dataset: Dataset
    """The whole dataset: haystacks, questions, gold."""
    selection: Selection = Selection()

    def __repr__(self) -> str:
        part = part_of(self.selection, len(self), len(self.dataset)) or f"{len(self)} questions"
        return f"Data({self.name!r}, {part})"

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.dataset.name

    @cached_property
    def questions(self) -> list[Question]:
        """The chosen questions, in file order, without their answers."""
        return select(list(self.dataset.questions()), self.selection, self.dataset.question_type)

    @cached_property
    def types(self) -> dict[str, int]:
        """Number of chosen questions of each type."""
        found = [self.dataset.question_type(question.question_id) for question in self.questions]
        return {kind: found.count(kind) for kind in dict.fromkeys(found)}

    @checked()
    def sample(self, n: int, *, seed: int = 0) -> "Data":
        """Return `n` questions, stratified by type; with one seed, a larger sample contains a smaller one.

        Raises:
            HarnessError: `n` is below 1.
        """
        if self.selection == Selection():
            return Data(self.dataset, Selection(sample=n, seed=seed))
        if n < 1:
            raise HarnessError(f"sample(n={n}) is too small", fix="Give 1 or more")
        ids = [question.question_id for question in self.questions]
        order = stratified_order({name: self.dataset.question_type(name) for name in ids}, seed)
        return self._only(order[:n])

    @checked()
    def first(self, n: int) -> "Data":
        """Return the first `n` questions.

        Raises:
            HarnessError: `n` is below 1.
        """
        if self.selection == Selection():
            return Data(self.dataset, Selection(limit=n))
        return self._only([question.question_id for question in self.questions[: max(n, 1)]])

    @checked()
    def where(self, *, type: str | Sequence[str] = (), question_id: str | Sequence[str] = ()) -> "Data":
        """Return the questions of one type, or of several, or with these ids.

        Raises:
            HarnessError: no selected question has that type or id.
        """
        types = _listed(type, "question type", self.types)
        ids = _listed(question_id, "question", [question.question_id for question in self.questions])
        return self._only(
            [
                name
                for name in (question.question_id for question in self.questions)
                if (not types or self.dataset.question_type(name) in types) and (not ids or name in ids)
            ]
        )

    def _only(self, ids: Sequence[str]) -> "Data":
        if not ids:
            raise HarnessError(f"No question of {self!r} is left", fix="Ask for less at a time")
        wanted = set(ids)
        remaining = (question.question_id for question in self.questions if question.question_id in wanted)
        return Data(self.dataset, Selection(question_ids=tuple(remaining)))


def _listed(names_in_call: str | Sequence[str], what: str, known: Mapping[str, int] | Sequence[str]) -> tuple[str, ...]:
    names = (names_in_call,) if isinstance(names_in_call, str) else tuple(names_in_call)
    for name in names:
        if name not in known:
            raise HarnessError(f"Unknown {what} '{name}' among the chosen questions", fix=nearest(name, known))
    return names


@checked(name_or_path="load_dataset('sample')")
def load_dataset(
    source: str | Path | Sequence[Mapping[str, Any]],
    data_dir: Path | None = None,
    *,
    name: str = "records",
    **options: object,
) -> Data:
    """Open a dataset: a name from the catalogue, a file or folder in a benchmark's format, or a list of records.

    Records, such as those that `json.load` returns, are stored in a file under `data_dir`, where runs find them again.

    Args:
        source: name, path or records.
        data_dir: folder of downloaded files; None: the current setting.
        name: name of the file of records; a prefix of their hash is added.
        options: options of the benchmark's loader, such as `captions` and `allow_tainted`.

    Raises:
        DataError: the name is unknown, or the data is missing, invalid, of another size than in the catalogue, or in
            the format of no known benchmark or of two.
    """
    if not isinstance(source, str | Path):
        source = _written(source, name, data_dir or Folders().data_dir)
    return Data(registry.load_dataset(source, data_dir, **options))


def _written(records: Sequence[Mapping[str, Any]], name: str, data_dir: Path) -> Path:
    if not _NAME.fullmatch(name):
        raise HarnessError(f"load_dataset(name='{name}') cannot be the name of a file", fix="Use letters and digits")
    try:
        data = msgspec.json.format(msgspec.json.encode(list(records), enc_hook=_plain), indent=1)
    except (TypeError, ValueError) as error:
        fix = "Give whole texts, numbers and lists, and dates as text"
        raise HarnessError(f"The records cannot be written as JSON: {error}", fix=fix) from error
    path = data_dir / _RECORDS / f"{name}-{sha256_bytes(data)[:8]}.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, data)
    return path


def _plain(value: object) -> object:
    """Return a number or an array of NumPy, as rows of data frames have them, as JSON has it."""
    if callable(tolist := getattr(value, "tolist", None)):
        return tolist()
    raise TypeError(f"JSON has no {type(value).__name__}")


def as_data(source: Data | Dataset | str | Path) -> Data:
    """Return `source` as `Data`; a name or path is opened."""
    if isinstance(source, str | Path):
        return load_dataset(source)
    return source if isinstance(source, Data) else Data(source)


# A memory for Python users: a preset, a class of theirs, a service or a product.


class Memory:
    """A memory configuration: which memory, with which parameters.

    Args:
        source: what `--memory` takes (a preset, `module:Class`, `process:COMMAND`, an address, an installed product, a
            YAML file), or a class with `add(session)` and `search(query, *, date, limit)`, or with `recall`. A class
            runs in this process and counts as another memory when its code changes.
        label: the name in tables; empty: the memory's name.
        parameters: parameters that differ from the defaults.

    Raises:
        HarnessError: the memory or parameter is unknown (names the nearest), or a value is invalid.
    """

    configuration: MemoryConfiguration
    """The configuration that runs record."""

    @checked()
    def __init__(self, source: "type | str", /, *, label: str = "", **parameters: object) -> None:
        if isinstance(source, type):
            self.configuration = configuration_of(live_spec(source), parameters, name=label)
            return
        if not isinstance(source, str):
            remedy = f"the class {type(source).__name__} itself, not an object of it"
            raise HarnessError(f"Memory({source!r:.60}) is not a memory", fix=f"Give a name or {remedy}")
        found = resolve_configuration(source)
        if label or parameters:
            name = label or (found.name if found.name != found.preset else "")
            found = configuration_of(found.preset, chosen_parameters(found) | parameters, name=name)
        self.configuration = found

    def __repr__(self) -> str:
        defaults = definition_of(self.configuration).parameters().model_dump(mode="json")
        own = public(self.configuration.parameters).items()
        arguments = "".join(
            f", {name}={value!r}" for name, value in own if name not in defaults or defaults[name] != value
        )
        return f"Memory({self.configuration.name!r}{arguments})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Memory) and self.configuration == other.configuration

    def __hash__(self) -> int:
        return hash((self.configuration.preset, repr(self.configuration.parameters)))

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.configuration.name

    @property
    def in_process(self) -> bool:
        """True if the memory is a class that was passed as an object."""
        return self.configuration.preset.startswith(LIVE)

    @property
    def unhashed(self) -> str:
        """The part of the code that cannot be hashed, so that its results are not reused; empty if there is none."""
        return unhashed(self.configuration.preset)


def as_memory(source: "Memory | MemoryConfiguration | type | str") -> Memory:
    """Return `source` as a `Memory`."""
    if isinstance(source, Memory):
        return source
    if isinstance(source, MemoryConfiguration):
        memory = Memory.__new__(Memory)
        memory.configuration = source
        return memory
    return Memory(source)
