"""Secrets among a memory's parameters and in commands: found by their names, kept as `[redacted]` or `env:NAME`.

A value is a secret if its name says so (`token`, `api_key`, `--password`). It is stored and shown as `[redacted]`,
without a hash, since short secrets can be guessed. `env:NAME` in its place is stored as it is, and stands for the value
of that environment variable wherever a memory gets it.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar, cast

from longmemeval.core.secrets.redaction import MARK
from longmemeval.core.text_files import UnreadableError, load_yaml
from longmemeval.errors import HarnessError

T = TypeVar("T")

_SECRET = re.compile(
    r"(?:token|secret|password|passwd|passphrase|credential|authorization)s?$"
    r"|(?:api|access|secret)_?keys$|(?:(?<![a-z])|api|access|secret)key$|(?<![a-z])(?:pass|pwd|auth|bearer)$",
    re.I,
)
_NO_SECRET = re.compile(
    r"(?:sort|primary|foreign|partition|group|cache|public|max|min|stop|special|mask|pad|eos|bos|sep|prompt|completion)"
    r"[_-]?(?:key|token)s?$",
    re.I,
)
"""Names of fields and of counts that a secret name ends."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")
_COMMAND = "process:"


def is_secret(name: str, value: object) -> bool:
    """Return whether the name of a parameter says that its value is a secret; a number of `tokens` is none."""
    spaced = _CAMEL.sub("_", name)
    if value is None or value == "" or isinstance(value, bool) or not _SECRET.search(spaced):
        return False
    counts = name.lower().endswith("s") and _NUMBER.fullmatch(str(value))
    return not (counts or _NO_SECRET.search(spaced))


def public(value: T, name: str = "") -> T:
    """Return a parameter's value, or a mapping of parameters, as it may be stored and shown."""
    return cast(T, _mapped(value, name, _hidden))


def comparable(value: T, name: str = "") -> T:
    """Return what is compared of parameters: any secret equals any other, whether it was stored or not."""
    return cast(T, _mapped(value, name, lambda secret, key: MARK))


def resolved(value: T, name: str = "") -> T:
    """Return parameters as a memory gets them: `env:NAME` replaced by the environment variable.

    Raises:
        HarnessError: the variable is not set, or a record gives the secret as `[redacted]`.
    """
    return cast(T, _mapped(value, name, _value_of))


def _mapped(value: object, name: str, change: Callable[[object, str], object]) -> object:
    if isinstance(value, Mapping):
        return {key: _mapped(entry, str(key), change) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(entry, name, change) for entry in value]
    return change(value, name) if is_secret(name, value) else value


def public_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command as they may be stored and shown."""
    return [before + _hidden(value, name) if name else _public_service(before) for before, name, value in _split(words)]


def words_without_options(words: Sequence[str], *options: str) -> list[str]:
    """Return the words of a command without options and their values."""
    remaining, skip = [], False
    for word in words:
        if not skip and word.split("=")[0] not in options:
            remaining.append(word)
        skip = not skip and word in options
    return remaining


def resolved_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command as they are run; raise the errors of `resolved`."""
    return [before + (str(_value_of(value, name)) if name else "") for before, name, value in _split(words)]


def words_without_secrets(words: Sequence[str]) -> list[str]:
    """Return the words of a command without secrets and the options that they belong to."""
    split = [*_split(words), ("", "", "")]
    return [
        word
        for word, own, after in zip(words, split, split[1:], strict=False)
        if not own[1] and after[:2] != ("", word)
    ]


def public_command(text: str) -> str:
    """Return a command line, or `process:COMMAND`, as it may be stored and shown."""
    return _command(text, public_words)


def comparable_command(text: str) -> str:
    """Return what is compared of `process:COMMAND`; see `comparable`."""
    return _command(text, lambda words: [before + (MARK if name else "") for before, name, _ in _split(words)])


def _command(text: str, change: Callable[[Sequence[str]], list[str]]) -> str:
    """Return a command with its words changed; if nothing changes, as it is written."""
    start = _COMMAND if text.startswith(_COMMAND) else ""
    try:
        words = shlex.split(text.removeprefix(start))
    except ValueError:
        words = text.removeprefix(start).split()
    changed = change(words)
    return (
        text if changed == words else start + " ".join(word if word == MARK else shlex.quote(word) for word in changed)
    )


def _split(words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield each word of a command as the text before a secret, the secret's name and the secret; both may be empty."""
    option = ""
    for word in words:
        # `--token X`, `token=X` and `--token=X`, `--set=token=X`.
        head, equals, value = word.partition("=")
        first, nested, rest = value.partition("=")
        if option and not word.startswith("-") and is_secret(option, word):
            yield "", option, word
        elif equals and is_secret(head, value):
            yield head + "=", head, value
        elif nested and head.startswith("-") and is_secret(first, rest):
            yield f"{head}={first}=", first, rest
        else:
            yield word, "", ""
        option = word if word.startswith("-") and not equals else ""


def _public_service(word: str) -> str:
    """Return a word without the secrets of a memory's command or of a mapping, as in `--memory=process:COMMAND`."""
    head, command, rest = word.partition(_COMMAND)
    if command and (not head or head.endswith("=")):
        return head + public_command(command + rest)
    head, equals, value = word.partition("=")
    if equals and value.startswith(("{", "[")):
        with suppress(UnreadableError):
            shown = public(given := load_yaml(value))
            return word if shown == given else f"{head}={shown}"
    return word


def _hidden(value: object, name: str) -> str:
    """Return what stands for a secret."""
    return value if isinstance(value, str) and _ENV.fullmatch(value) else MARK


def _value_of(value: object, name: str) -> object:
    """Return a secret itself.

    Raises:
        HarnessError: it was not stored, or its environment variable is not set.
    """
    shown = name.lstrip("-")
    if value == MARK:
        raise HarnessError(
            f"The value of '{shown}' was not stored: {MARK}",
            fix=f"Give it again, as --set {shown}=env:NAME for example",
        )
    variable = _ENV.fullmatch(value) if isinstance(value, str) else None
    if variable is None:
        return value
    if not (found := os.environ.get(variable[1])):
        raise HarnessError(
            f"The environment variable of '{shown}' is not set: {variable[1]}",
            fix=f"Export {variable[1]} in this shell",
        )
    return found
