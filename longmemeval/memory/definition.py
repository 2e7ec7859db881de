"""The definition of a memory configuration: its parameters, the fixture parts it needs, and how the system is built."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from urllib.parse import urlsplit

from longmemeval.core.files import sha256_file, sha256_text
from longmemeval.core.secrets.parameters import public_command, words_without_secrets
from longmemeval.errors import HarnessError
from longmemeval.memory.protocol import MemorySystem, MemoryTools

if TYPE_CHECKING:
    from longmemeval.memory.parameters import Parameters
    from longmemeval.reading.options import ReadingMethod
    from longmemeval.storage.parts import Part


P = TypeVar("P", bound="Parameters")
Control = Literal["floor", "reference"]
"""The role of a configuration that is not a memory system under test: a `floor` sees no history or understands no
question, a `reference` has everything that a memory could find.
"""


@dataclass(frozen=True)
class MemoryDefinition(Generic[P]):
    """One memory system with its parameters."""

    summary: str
    """A summary of what the answering model sees, for help texts and docs."""
    parameters: type[P]
    parts: Callable[[P], "Iterable[Part[Any]]"]
    """Function that returns the fixture parts that the system reads under the parameters."""
    build: Callable[[P, MemoryTools], MemorySystem]
    reads_gold: bool = False
    """True if the system may see which sessions are the evidence; tables say so."""
    control: Control | None = None
    """The role in a comparison, for a configuration that is not a memory system."""
    label: str = ""
    """The name in tables; empty for the registered name."""
    recalls_everything: bool = False
    """True if every message is recalled, so that the length of prompts follows from the data alone."""
    reading: "ReadingMethod | None" = None
    """The only reading method that the memory supports; None: any."""
    origin: Mapping[str, str] | None = None
    """The origin recorded with the name; None: derived from its module."""
    require: Callable[[], object] = lambda: None
    """Function that raises a `HarnessError` if something must be installed before use."""
    profiled: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda parameters: {}
    """Function that returns the settings of the profile named in the parameters; explicit parameters override them."""
    may_read: "tuple[Part[Any], ...]" = ()
    """Parts read only under non-default parameters, so that `verify` and `inspect` know them."""

    def all_parts(self) -> "dict[str, Part[Any]]":
        """Return every part that the system may read, by name."""
        return {part.name: part for part in (*self.parts(self.parameters()), *self.may_read)}


# The specs of memories from outside, as given to `--memory`; nothing of `memory.external` is imported for them.

PROCESS = "process:"
HTTP = ("http://", "https://")


def is_service(spec: str) -> bool:
    """Return whether `spec` names a child process or an address."""
    return spec.startswith((PROCESS, *HTTP))


def is_on_this_machine(spec: str) -> bool:
    """Return whether the service that `spec` names can call addresses of the loopback."""
    return not spec.startswith(HTTP) or urlsplit(spec).hostname in ("localhost", "127.0.0.1", "::1")


def is_memory_class(loaded: object) -> bool:
    """Return whether an object is a class with `add` and `search`."""
    return isinstance(loaded, type) and all(callable(getattr(loaded, name, None)) for name in ("add", "search"))


def label_of(spec: str) -> str:
    """Return the service's name in tables: host and port, or the last word of the command without folders and module.

    Raises:
        HarnessError: there is no command, or the address contains something that a manifest must not store.
    """
    if spec.startswith(HTTP):
        host = spec.partition("://")[2].rstrip("/")
        if "@" in host or "?" in host:
            raise HarnessError(
                "The address of a memory contains a user name, a password or a query",
                fix="Give only scheme, host, port and path; the service reads its keys from its own environment",
            )
        return host
    words = words_without_secrets(command_of(spec)) or [PROCESS.rstrip(":")]
    return words[-1].rpartition("/")[2].rpartition(":")[2] or words[0]


def command_of(spec: str) -> list[str]:
    """Return the words of `process:COMMAND`.

    Raises:
        HarnessError: there are no words, or a quotation mark is missing.
    """
    words: list[str] = []
    with suppress(ValueError):
        words = shlex.split(spec.removeprefix(PROCESS))
    if not words:
        raise HarnessError(
            "This is not a command",
            where=public_command(spec),
            fix="Write process:COMMAND, such as 'process:node memory.mjs'",
        )
    return words


def source_of(spec: str) -> dict[str, str] | None:
    """Return the hash of the files that a command names, so that changed code is noticed; None if it names none."""
    files = [Path(word) for word in command_of(spec)[1:] if Path(word).is_file()] if spec.startswith(PROCESS) else []
    lines = "".join(f"{file.name}:{sha256_file(file)}\n" for file in files)
    return {"source_sha256": sha256_text(lines)} if files else None
