"""Profiles of a product: by which settings it is measured, whose they are, and what they leave out. All of it is data.

`profiles.toml` in the folder of an adapter holds them. It is no part of the adapter's hash: the settings themselves are
in the recipe of what is ingested.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from longmemeval.errors import HarnessError, nearest

FILE = "profiles.toml"
USUAL = "ours"
"""The profile without settings of its own: the adapter's defaults, a common ground for all products."""


class Profile(Struct, frozen=True, forbid_unknown_fields=True):
    """One way to set a product up."""

    source: str
    """Where the settings are from: a file of the product at its version, or the address of its maker's harness."""
    settings: dict[str, Any] = {}
    """Parameters of the memory, as after `--set`."""
    deviations: tuple[str, ...] = ()
    """What is otherwise than in the product as its maker recommends or measures it, a few words each."""
    refused: str = ""
    """Why it is not available, and what to use instead; empty if it is."""
    not_run: str = ""
    """Why it was not run whole by us; empty if it was, against a local endpoint."""


class Profiles(Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `profiles.toml`."""

    search: tuple[str, ...] = ()
    """Parameters that only a search reads: they are no part of what is ingested."""
    same_as: dict[str, str] = {}
    """A hash of the adapter's files to that of an earlier version that ingests the same, whose histories stay valid."""
    profiles: dict[str, Profile] = {}

    def settings(self, given: Mapping[str, Any], product: str) -> dict[str, Any]:
        """Return the settings of the profile that parameters name.

        Raises:
            HarnessError: there is no such profile, with the nearest name.
        """
        name = given.get("profile", USUAL)
        if profile := self.profiles.get(name):
            if profile.refused:
                raise HarnessError(f"Profile '{name}' of '{product}' is not available", fix=profile.refused)
            return dict(profile.settings)
        if name == USUAL:
            return {}
        fix = nearest(str(name), self.profiles) if self.profiles else f"Write them into {FILE} of its folder"
        raise HarnessError(f"'{product}' has no profile '{name}'", fix=fix)


def read_profiles(folder: Path) -> Profiles:
    """Read the profiles of an adapter; one without the file has none.

    Raises:
        HarnessError: the file cannot be read.
    """
    file = folder / FILE
    if not file.is_file():
        return Profiles()
    try:
        return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Profiles)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise HarnessError(f"The profiles of a memory adapter cannot be read: {error}", where=str(file)) from error


_AMOUNTS = ("at most ", "the best ")
"""Beginnings of what `deviations` says of how much was recalled."""


def is_amount(deviation: str) -> bool:
    """Return whether one of the `deviations` says no more than how much was recalled."""
    return deviation.startswith(_AMOUNTS)


def deviations(profiles: Profiles, parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield in a few words each how a product was measured otherwise than its maker does.

    Args:
        profiles: of its adapter.
        parameters: of the run.
    """
    name = parameters.get("profile", USUAL)
    profile = profiles.profiles.get(name, Profile(""))
    yield f"profile {name}"
    yield from profile.deviations
    known = {"limit": None, "budget": None, "profile": None, **profile.settings}
    yield from (f"{key}={value}" for key, value in parameters.items() if key not in known)
    yield from (f"{key}={parameters[key]}" for key in profile.settings if parameters.get(key) != profile.settings[key])
    if budget := parameters.get("budget"):
        yield f"{_AMOUNTS[0]}{budget:,} tokens"
    elif limit := parameters.get("limit"):
        yield f"{_AMOUNTS[1]}{limit}"
    if profile.not_run:
        yield f"not run by us: {profile.not_run}"
