"""The specs of memories from outside, as given to `--memory`; nothing of `memory.external` is imported for them."""

import shlex
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from longmemeval.core.files import sha256_file, sha256_text
from longmemeval.core.secrets.parameters import public_command, words_without_secrets
from longmemeval.errors import HarnessError

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
