"""Name the runs of a comparison: the memory, and whatever else tells its row from the others."""

from collections.abc import Sequence
from itertools import takewhile

from longmemeval.llm.offline import CONTROL_MODELS
from longmemeval.pipeline.compare.repeats import Pool
from longmemeval.results.graded.graded_run import RunSummary
from longmemeval.results.settings import AnswerSettings

_LONGEST = 48
"""The longest name in characters that can be read at a glance."""


def names_of(pools: Sequence[Pool]) -> dict[str, str]:
    """Return the name of every run by its id; repeats are numbered, their first has the name of the row as well.

    The name of a row is its memory, with the parameters in which memories of that name differ, followed by the model,
    the reading method and the embedder where the rows differ in them. If that does not tell rows apart, or is too long,
    the distinguishing part of the run id replaces it.
    """
    firsts = [pool[0] for pool in pools]
    names = row_names([run.summary for run in firsts], [_reading(run.manifest.settings) for run in firsts])
    found: dict[str, str] = {}
    for name, pool in zip(names, pools, strict=True):
        found |= {run.id: f"{name} (repeat {number})" for number, run in enumerate(pool, start=1) if number > 1}
        found[pool[0].id] = name
    return found


def _reading(settings: object) -> str:
    return settings.reading.shown if isinstance(settings, AnswerSettings) else ""


def row_names(summaries: Sequence[RunSummary], readings: Sequence[str] = ()) -> list[str]:
    """Return the name of each row (`names_of`).

    Args:
        readings: the reading method of each; empty: not told apart by it.
    """
    readings = readings or [""] * len(summaries)
    alike: dict[str, list[RunSummary]] = {}
    for summary in summaries:
        alike.setdefault(_base(summary), []).append(summary)
    settings = [
        (_short_model(summary.model), reading.partition(",")[0], summary.embedder)
        for summary, reading in zip(summaries, readings, strict=True)
    ]
    told = [summary.model not in CONTROL_MODELS for summary in summaries]
    varying = [
        len({values[kind] for values, is_told in zip(settings, told, strict=True) if is_told}) > 1 for kind in range(3)
    ]
    # A memory that reads no vectors has no embedder: only two different ones are worth a word.
    varying[2] = len({values[2] for values in settings if values[2]}) > 1
    names = []
    for summary, values, is_told in zip(summaries, settings, told, strict=True):
        name = _with_parameters(_base(summary), summary, alike[_base(summary)])
        more = [value for value, varies in zip(values, varying, strict=True) if varies and value and is_told]
        names.append(", ".join([name, *more]))
    lacking = [
        place
        for place, (name, summary) in enumerate(zip(names, summaries, strict=True))
        if names.count(name) > 1 or len(name) > max(_LONGEST, len(summary.memory))
    ]
    ids = [summaries[place].run_id for place in lacking]
    for place, part in zip(lacking, _parts_apart(ids), strict=True):
        names[place] = summaries[place].run_id if part in names else part
    return names


def _base(summary: RunSummary) -> str:
    if summary.model in CONTROL_MODELS:
        return f"{_short_model(summary.model)} on {summary.memory}"
    return summary.memory


def _short_model(model: str) -> str:
    return model.rpartition("/")[2]


def _with_parameters(name: str, run: RunSummary, alike: Sequence[RunSummary]) -> str:
    differing = [
        key for key, value in run.parameters.items() if any(peer.parameters.get(key) != value for peer in alike)
    ]
    return " ".join([name, *(f"{key}={run.parameters[key]}" for key in differing if f"{key}=" not in name)])


def _parts_apart(ids: Sequence[str]) -> list[str]:
    """Return the ids without the parts that all of them begin with; the part before a bare number is kept."""
    parts = [run_id.split("-") for run_id in ids]
    alike = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*parts, strict=False)))
    begin = min(alike, *(len(words) - 1 for words in parts)) if len(ids) > 1 else 0
    if begin and any("-".join(words[begin:]).isdecimal() for words in parts):
        begin -= 1
    return ["-".join(words[begin:]) for words in parts]
