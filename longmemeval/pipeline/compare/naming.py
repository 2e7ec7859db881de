"""Name the rows of a comparison by what tells them apart, and lay rows that vary in two settings out as grids."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product, takewhile
from typing import Any

from msgspec import Struct

from longmemeval.llm.offline import CONTROL_MODELS
from longmemeval.pipeline.compare.comparable import decisive_settings

_LONGEST = 60
"""The longest name in characters that can be read at a glance; the words of a longer one are shortened."""
_LONGEST_WORD = 24
_OTHERS = ("model", "reading", "embedder")
"""What may tell rows apart besides their memories, in the order of a name."""


class Setup(Struct, frozen=True):
    """What a row's name is made of, of a run that is planned or made."""

    run_id: str
    memory: str
    """The configuration's name; the values of a sweep's grid stand at its end."""
    parameters: Mapping[str, Any]
    model: str
    reading: str = ""
    """The reading method."""
    embedder: str = ""
    """Spec of the embedder; empty if no vectors are read."""
    settings: Mapping[str, Any] = {}
    """All settings, for rows that nothing else tells apart."""


Factors = dict[str, str]
"""What a row is: its memory, then values by the parameter or setting in which rows differ."""


def factors_of(setups: Sequence[Setup]) -> list[Factors]:
    """Return for each row its memory, the parameters in which rows of that memory differ, and whatever else varies.

    A memory that reads no vectors has no embedder, and a control no model of its own: neither makes these vary.
    """
    parts = [_split(setup) for setup in setups]
    told = [setup for setup in setups if setup.model not in CONTROL_MODELS]
    varying = [name for name in _OTHERS if len({_other(setup, name) for setup in told} - {""}) > 1]
    found = []
    for setup, (memory, own) in zip(setups, parts, strict=True):
        alike = [(peer, values) for peer, (base, values) in zip(setups, parts, strict=True) if base == memory]
        texts = {
            f"parameter {key}" if key in ("memory", *_OTHERS) else key: own.get(
                key, value_text(setup.parameters.get(key))
            )
            for key in _differing(alike)
        }
        others = {name: _other(setup, name) for name in varying if setup in told and _other(setup, name)}
        found.append({"memory": memory} | texts | others)
    return found


def _other(setup: Setup, name: str) -> str:
    return _short_model(setup.model) if name == "model" else str(getattr(setup, name))


def _short_model(model: str) -> str:
    return model.rpartition("/")[2]


def _split(setup: Setup) -> tuple[str, dict[str, str]]:
    """Return the name of a row's memory, and the parameters' values that stand at the end of its configuration's."""
    words, values = setup.memory.split(" "), dict[str, str]()
    while len(words) > 1:
        key, is_value, value = words[-1].partition("=")
        if not is_value or key not in setup.parameters:
            break
        values = {key: value} | values
        words.pop()
    return answered_by(setup.model, " ".join(words)), values


def answered_by(model: str, memory: str) -> str:
    """Return the name of a memory, for a control model with the model's, as in "parrot on hybrid"."""
    return f"{_short_model(model)} on {memory}" if model in CONTROL_MODELS else memory


def _differing(alike: Sequence[tuple[Setup, Mapping[str, str]]]) -> list[str]:
    """Return the parameters that tell rows of one memory apart: those that their names hold, if these do."""

    def values(key: str) -> list[str]:
        return [own.get(key, value_text(setup.parameters.get(key))) for setup, own in alike]

    def told(keys: Iterable[str]) -> int:
        return len(set(zip(*map(values, keys), strict=True)))

    every = dict.fromkeys(key for setup, _ in alike for key in setup.parameters)
    differing = [key for key in every if len(set(values(key))) > 1]
    named = [key for key in dict.fromkeys(key for _, own in alike for key in own) if key in differing]
    return named if named and told(named) == told(differing) else [*named, *(k for k in differing if k not in named)]


def value_text(value: object) -> str:
    """Return a parameter's value as names show it."""
    if isinstance(value, list | tuple):
        return ",".join(map(value_text, value)) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def row_names(setups: Sequence[Setup]) -> list[str]:
    """Return the name of each row: its memory and what differs between the rows, such as "hybrid top_k=5, con".

    Where that does not tell rows apart, further settings follow, and as a last resort the part of the run id replaces
    it that does.
    """
    words = list(map(_words, factors_of(setups)))
    for alike in _doubled(words):
        for place, more in zip(alike, _more([setups[place] for place in alike]), strict=True):
            words[place] = [*words[place], *more]
    names = list(map(_joined, words))
    short = [_joined(map(_shortened, row)) if len(_joined(row)) > _LONGEST else _joined(row) for row in words]
    names = short if len(set(short)) == len(set(names)) else names
    lacking = [place for place, name in enumerate(names) if names.count(name) > 1]
    ids = [setups[place].run_id for place in lacking]
    for place, part in zip(lacking, _parts_apart(ids), strict=True):
        names[place] = setups[place].run_id if part in names else part
    return names


def _words(row: Factors) -> list[str]:
    """Return the parts of a name: the memory with its parameters, then each other setting."""
    values = [f"{key}={value}" for key, value in row.items() if key not in ("memory", *_OTHERS)]
    return [" ".join([row["memory"], *values]), *(row[name] for name in _OTHERS if name in row)]


def _joined(words: Iterable[str]) -> str:
    return ", ".join(words)


def _shortened(text: str) -> str:
    """Return a part of a name with the middle of long words left out."""
    half = _LONGEST_WORD // 2
    return " ".join(w if len(w) <= _LONGEST_WORD else f"{w[: half - 1]}…{w[-half:]}" for w in text.split(" "))


def _doubled(words: Sequence[Sequence[str]]) -> list[list[int]]:
    places: dict[str, list[int]] = {}
    for place, row in enumerate(words):
        places.setdefault(_joined(row), []).append(place)
    return [alike for alike in places.values() if len(alike) > 1]


def _more(setups: Sequence[Setup]) -> list[list[str]]:
    """Return the fewest further settings that tell rows apart as far as settings can, for each row."""
    leaves = [{key: value_text(value) for key, value in decisive_settings(setup.settings)} for setup in setups]
    keys = dict.fromkeys(key for row in leaves for key in row if not key.startswith("embedder."))
    differing = [key for key in keys if len({row.get(key, "none") for row in leaves}) > 1]
    chosen: list[str] = []
    rows: list[tuple[str, ...]] = [() for _ in setups]
    for key in sorted(differing, key=lambda key: max(len(row.get(key, "")) for row in leaves)):
        added = [(*row, leaf.get(key, "none")) for row, leaf in zip(rows, leaves, strict=True)]
        if len(set(added)) > len(set(rows)):
            chosen, rows = [*chosen, key.rpartition(".")[2]], added
    return [[f"{key}={value[:_LONGEST_WORD]}" for key, value in zip(chosen, row, strict=True)] for row in rows]


def _parts_apart(ids: Sequence[str]) -> list[str]:
    """Return the ids without the parts that all of them begin with; the part before a bare number is kept."""
    parts = [run_id.split("-") for run_id in ids]
    alike = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*parts, strict=False)))
    begin = min(alike, *(len(words) - 1 for words in parts)) if len(ids) > 1 else 0
    if begin and any("-".join(words[begin:]).isdecimal() for words in parts):
        begin -= 1
    return ["-".join(words[begin:]) for words in parts]


# Rows that vary in two settings, as a grid.


class Grid(Struct, frozen=True):
    """Rows of a comparison that vary in two settings, one for each combination of their values."""

    fixed: str
    """What these rows share and others do not, such as "hybrid, con"; empty if there are no others."""
    down: str
    """The setting whose values lead down, a parameter or `memory`, `model`, `reading` or `embedder`."""
    across: str
    down_values: tuple[str, ...]
    across_values: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    """The run id of each combination, line by line."""

    @property
    def title(self) -> str:
        """Both settings, and what is fixed."""
        return f"{self.down} by {self.across}" + (f" ({self.fixed})" if self.fixed else "")


def grids_of(setups: Sequence[Setup], controls: Sequence[bool]) -> list[Grid]:
    """Return the grids of rows: of two parameters of one memory, or of the only two settings that vary.

    Args:
        setups: all rows.
        controls: for each, whether it is a control, which stands in no grid.
    """
    every = zip(setups, factors_of(setups), controls, strict=True)
    rows = {setup.run_id: factors for setup, factors, control in every if not control}
    by_memory: dict[str, dict[str, Factors]] = {}
    for run_id, factors in rows.items():
        by_memory.setdefault(factors["memory"], {})[run_id] = factors
    found = [grid for group in by_memory.values() for grid in _grids_in(group, several=len(by_memory) > 1)]
    keys = _varying(rows.values())
    if not found and len(keys) == 2 and "budget" not in keys:  # Memories by budgets have a table of their own.
        found = list(filter(None, [_grid(rows, keys, "")]))
    return found


def _grids_in(group: Mapping[str, Factors], *, several: bool) -> Iterator[Grid]:
    """Yield the grids of one memory's rows, one for each combination of the settings that are in neither axis."""
    keys = _varying(group.values())
    parameters = [key for key in keys if key not in _OTHERS]
    axes = parameters if len(parameters) == 2 else keys
    if len(axes) != 2:
        return
    apart: dict[tuple[str, ...], dict[str, Factors]] = {}
    for run_id, factors in group.items():
        rest = [factors["memory"]] if several else []
        rest += [factors.get(key, "") for key in keys if key not in axes]
        apart.setdefault(tuple(rest), {})[run_id] = factors
    for fixed, rows in apart.items():
        if grid := _grid(rows, axes, ", ".join(filter(None, fixed))):
            yield grid


def _varying(rows: Iterable[Factors]) -> list[str]:
    rows = list(rows)
    keys = dict.fromkeys(key for row in rows for key in row)
    return [key for key in keys if len({row.get(key) for row in rows}) > 1]


def _grid(rows: Mapping[str, Factors], axes: Sequence[str], fixed: str) -> Grid | None:
    """Return the rows as a grid; None unless each combination of at least two values by two is there, once."""
    down, across = axes
    if any(key not in factors for factors in rows.values() for key in axes):
        return None
    at = {(factors[down], factors[across]): run_id for run_id, factors in rows.items()}
    lines, columns = (_in_order(values) for values in zip(*at, strict=True))
    whole = len(at) == len(rows) and at.keys() == set(product(lines, columns))
    if not whole or min(len(lines), len(columns)) < 2:
        return None
    cells = tuple(tuple(at[line, column] for column in columns) for line in lines)
    return Grid(fixed, down, across, lines, columns, cells)


def _in_order(values: Iterable[str]) -> tuple[str, ...]:
    """Return distinct values: numbers by size, else in the order given."""
    distinct = tuple(dict.fromkeys(values))
    try:
        return tuple(sorted(distinct, key=float))
    except ValueError:
        return distinct
