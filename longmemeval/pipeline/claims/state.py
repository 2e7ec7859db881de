"""Determine whether a claim can be tried here and now: what is missing, and the remedy."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from longmemeval.benchmarks.catalogue import BENCHMARK_SPECS, catalogue, data_file, folder_state
from longmemeval.errors import HarnessError
from longmemeval.judges.definition import JUDGE_DEFINITIONS
from longmemeval.memory.configuration import MEMORIES
from longmemeval.pipeline.claims.catalogue import Claim, ClaimSettings, all_claims

What = Literal["data", "a key", "the product"]
_EMBEDDER = "openai:"
"""Prefix of a remote embedder's name; the rest is a model of that provider."""

_ALSO = {"GEMINI_API_KEY": "GOOGLE_API_KEY"}
"""Alternative names of providers' keys."""


class Need(Struct, frozen=True):
    """One thing that is missing."""

    what: What
    name: str
    """The dataset, variable or product."""
    fix: str


class State(Struct, frozen=True):
    """The missing things and obstacles of a claim."""

    needs: tuple[Need, ...] = ()
    cannot: str = ""
    """Reason why it can never be tried; empty if it can."""

    @property
    def label(self) -> str:
        """`ready`, `needs data and a key`, or `cannot`."""
        if self.cannot:
            return "cannot"
        kinds = list(dict.fromkeys(need.what for need in self.needs))
        return f"needs {' and '.join(kinds)}" if kinds else "ready"


def claims_on(benchmark: str | None, system: str, data_dir: Path) -> list[tuple[Claim, State]]:
    """Return claims and their states, in the order of their files.

    Args:
        benchmark: only those on it; None: on all.
        system: only systems and readers with this in their names, in any case.
        data_dir: folder of downloaded data.

    Raises:
        HarnessError: there is no such benchmark; names the nearest.
    """
    return [(claim, state_of(claim, data_dir)) for claim in chosen_claims(benchmark, system)]


def chosen_claims(benchmark: str | None, system: str) -> list[Claim]:
    """Return the claims on a benchmark and a system, as for `claims_on`."""
    claims = all_claims()
    # Claims may be on a benchmark that is not here.
    if benchmark is not None and benchmark not in {claim.benchmark for claim in claims}:
        BENCHMARK_SPECS.get(benchmark)
    return [
        claim
        for claim in claims
        if benchmark in (None, claim.benchmark)
        and system.lower() in f"{claim.product} {claim.system} {claim.reader}".lower()
    ]


def state_of(
    claim: Claim, data_dir: Path, *, model: str | None = None, judge: str | None = None, dataset: str | None = None
) -> State:
    """Return what a claim lacks to be tried here; calls nothing and does not hash data.

    Args:
        data_dir: folder of downloaded data.
        model: another answering model than the claim's.
        judge: another judge than the claim's.
        dataset: location of the data, if it is not in the data folder.
    """
    if claim.settings is None:
        return State(cannot=claim.cannot)
    if claim.value is None:
        return State(cannot="Only figures for groups were published, none over all questions.")
    settings = claim.settings.model_copy(
        update={name: value for name, value in (("model", model), ("judge", judge)) if value}
    )
    needs = [] if dataset else list(missing_data(settings, data_dir))
    return State((*needs, *_product(settings), *_keys(settings)))


def place_of(settings: ClaimSettings, data_dir: Path) -> str:
    """Return the data's value for `--dataset`: its name in the catalogue, or its path in the data folder."""
    return settings.dataset if settings.dataset in catalogue() else str(data_dir / settings.dataset)


def missing_data(settings: ClaimSettings, data_dir: Path) -> Iterator[Need]:
    """Yield the dataset of a claim if it is not in the data folder."""
    name = settings.dataset
    entry = catalogue().get(name)
    if entry is None:
        if not (data_dir / name).exists():
            yield Need("data", name, settings.get or f"Put it at {data_dir / name}, or give --dataset PATH")
        return
    path = data_file(entry, data_dir)
    here = folder_state(path) == "yes" if entry.is_folder else path.is_file()
    if not here:
        by_hand = entry.instructions.format(folder=path) if entry.instructions else ""
        yield Need("data", name, by_hand or f"Run `longmemeval datasets download {name}`")


def models_of(settings: ClaimSettings) -> list[str]:
    """Return the specs of all chat models and remote embedders that trying a claim calls."""
    judge = "" if settings.judge in JUDGE_DEFINITIONS else settings.judge.rpartition("@")[2]
    named = [settings.model, judge, *(str(value) for key, value in settings.prepare.items() if key.endswith("_model"))]
    embedder = str(settings.prepare.get("embedder", ""))
    if embedder.startswith(_EMBEDDER):
        named.append(f"openai/{embedder.removeprefix(_EMBEDDER)}")
    return [name for name in dict.fromkeys(named) if "/" in name and not name.startswith("offline/")]


def _product(settings: ClaimSettings) -> Iterator[Need]:
    try:
        MEMORIES.get(settings.memory).require()
    except HarnessError as error:
        yield Need("the product", settings.memory, error.fix or error.what)


def _keys(settings: ClaimSettings) -> Iterator[Need]:
    """Yield the keys that are not set, by the usual names of providers' keys: asking LiteLLM takes seconds."""
    named = {f"{spec.partition('/')[0].upper().replace('-', '_')}_API_KEY": spec for spec in models_of(settings)}
    for variable, spec in named.items():
        if not any(map(os.environ.get, (variable, _ALSO.get(variable, "")))):
            yield Need("a key", variable, f"Set {variable} for {spec}")
