"""Keeping secrets out of printed and written text.

Secrets are the values of environment variables whose name says so (`OPENAI_API_KEY`, `gateway_token`), and the password
and query of every address that is given (`register_address`) or is in the environment, and its user name if that looks
like a key. They are found by value, in every spelling that servers and libraries give them: verbatim, percent-encoded,
JSON-escaped, in base64 (as in `Basic …`, whatever comes before them), or cut off after their first 16 characters. The
name of a variable is never redacted in part.

There are four degrees, for four kinds of text:

- `record_without_secrets`: values other than plain words, in records that are read again. Keys, ids and names stay.
- `without_secrets`: values only. For data (a model's answer), which otherwise stays as it is, byte for byte.
- `hide`: values, including short ones if the context marks them as secret, and user information in any address.
  For the harness's own texts; every `HarnessError` and everything on the screen goes through it.
- `redact`: the same, and anything that looks like a key. For texts from servers, and for command lines.

Hiding a value of fewer than 8 characters, a number of fewer than 12 digits, or a placeholder such as "password" would
hide ordinary words too: these are hidden only as a password in an address, or after `key=`, `Bearer ` and similar.
"""

import base64
import html
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast
from urllib.parse import SplitResult, parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

T = TypeVar("T")

MARK = "[redacted]"

_SHORTEST = 8
_SHORTEST_NUMBER = 12
_TELLING_START = 16
"""Number of characters by which a truncated value is recognised."""
_ORDINARY_START = re.compile(r"\s|://|^/")
"""Pattern of the start of sentences, addresses and paths, which secrets share with many other texts."""
_PLAIN_WORD = re.compile(r"[a-z]{1,15}", re.I)
"""Pattern of a password that is a plain word: redacting it would destroy settings and names."""
_WORD = r"(?:[a-z]{1,23}|[A-Z]{1,23}|[a-z]*(?:[A-Z][a-z]{2,})+)"
_USER_NAME = re.compile(rf"(?:[a-z]{{1,7}}\d[a-z]{{1,7}}|{_WORD}\d{{0,4}})(?:[._@+-](?:{_WORD}\d{{0,4}}|\d{{1,4}}))*")
"""Pattern of words, possibly numbered; anything else before the host of an address may be a key."""
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_SAYS_MORE = re.compile(r"://|:\S*\s")
"""Pattern of an address, or of `process:` and a command."""
_PLACEHOLDERS = frozenset({"changeme", "disabled", "optional", "password", "placeholder", "required", "undefined"})

_SECRET_NAME = re.compile(
    r"(?<![a-z])(?:key|token|secret|password|passwd|passphrase|pass)s?(?![a-z])|(?:key|token|secret|password)$", re.I
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"'<>]+", re.I)
_USER_INFORMATION = re.compile(r"(?<=://)[^/@\s\"']+(?=@)")
_SAYS_SECRET = r"(?:key|token|secret|password|passwd|passphrase|bearer|basic|authori[sz]ation)"
_KEY_LIKE = re.compile(
    r"(?i:Bearer)\s+\S+"
    r"|(?i:Basic)\s+(?=\S*(?:[0-9=+/]|[a-z][A-Z]))[A-Za-z0-9+/=_-]{6,}"
    r"|\bAIza[\w-]{8,}"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|r8|pplx)[-_][\w*-]{6,}"
    r"|(?<=[?&])(?i:[\w.-]*(?:key|token|secret|password|sig|signature|auth)=)[^\s&#\"'<>]+"
    r"|\b(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{24,}\b"
)

_NAME = re.compile(r"[A-Za-z0-9_]+")
_LONGEST_NAME = 100

_QUERY = re.compile(r"(://[^\s\"'<>?]+\?)[^\s\"'<>#]+")

_from_addresses: set[str] = set()


def register_address(address: str | None) -> None:
    """Remember the secrets in an address given by the user: its user information and its query."""
    _from_addresses.update(_secrets_in(address or ""))


def without_secrets(text: str) -> str:
    """Return `text` without secret values, otherwise unchanged."""
    return _without(text, _secrets().spellings)


def record_without_secrets(record: T, names: Collection[str]) -> T:
    """Return a record of JSON values without secrets.

    The record is read again, so no key, id or name in it changes, nor does a word that is also a password. A secret
    that is a plain word is hidden only where it is marked as secret: under `password` and similar keys, after
    `password=`, and before the `@` of an address.

    Args:
        names: keys whose values are ids and names, at any depth. Addresses and commands there do not count as names.
    """
    return cast(T, _cleaned(record, frozenset(names), "", named=False))


def _cleaned(value: object, names: frozenset[str], key: str, *, named: bool) -> object:
    if isinstance(value, str):
        if named and not _SAYS_MORE.search(value):
            return value
        if _is_secret(key):
            return without_secrets(value)
        text, lowered = _without(value, _secrets().unusual), value.lower()
        for word in _secrets().words:
            text = _given_as_secret(word).sub(_marked_behind, text) if word.lower() in lowered else text
        return text
    if isinstance(value, Mapping):
        return {name: _cleaned(entry, names, name, named=named or name in names) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(entry, names, key, named=named) for entry in value]
    return value


def _without(text: str, spellings: "Iterable[_Spelling]") -> str:
    lowered = text.lower()
    patterns = tuple(spelling.pattern for spelling in spellings if spelling.start in lowered)
    return _any(patterns).sub(_marked, text) if patterns else text


def _marked(match: re.Match[str]) -> str:
    return match[0] if _is_in_variable(match.string, *match.span()) else MARK


def _is_in_variable(text: str, start: int, end: int) -> bool:
    """Return whether the match is part of a variable's name: `postgres` in `POSTGRES_PASSWORD`."""
    for name in _NAME.finditer(text, max(0, start - _LONGEST_NAME), end + _LONGEST_NAME):
        if name.start() <= start and end <= name.end() and name.end() - name.start() > end - start:
            return name[0] in os.environ or bool(_VARIABLE.fullmatch(name[0]) and _is_secret(name[0]))
    return False


def hide(text: str) -> str:
    """Return `text` without secret values, and without user information in addresses."""
    text = _USER_INFORMATION.sub(MARK, without_secrets(text))
    lowered = text.lower()
    for value in _secrets().weak:
        if value.lower() in lowered:
            text = _weak(value).sub(_marked_behind, text)
    return text


def _marked_behind(match: re.Match[str]) -> str:
    before = next(filter(None, match.groups()))
    in_variable = _is_in_variable(match.string, match.start() + len(before), match.end())
    return match[0] if in_variable else before + MARK


def redact(text: str) -> str:
    """Return `text` without anything that is or looks like a secret: `sk-…`, `Basic …`, queries, long random words."""
    return _KEY_LIKE.sub(MARK, _QUERY.sub(rf"\1{MARK}", hide(text)))


def public_url(url: str) -> str:
    """Return scheme, host, port and path of `url`, without a final slash: the part that others may see.

    If the user information has a raw `/`, `?` or `#`, its end cannot be found, and everything after the scheme is left
    out.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return MARK
    host = parts.netloc.rpartition("@")[2]
    name, colon, port = host.rpartition(":")
    unclear = (colon and not port.isdigit() and not port.endswith("]")) or (colon and name and "@" in parts.path)
    if unclear:
        return f"{parts.scheme}://{MARK}"
    return urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))


class _Spelling(NamedTuple):
    start: str
    """The start in lower case; a text without it does not contain the spelling. This check is 100 times as fast."""
    pattern: str


class _Secrets(NamedTuple):
    spellings: tuple[_Spelling, ...]
    """Spellings of the values to search for everywhere."""
    unusual: tuple[_Spelling, ...]
    """Spellings of values that are not plain words."""
    words: tuple[str, ...]
    """Values that are plain words."""
    weak: tuple[str, ...]
    """Values to search for only where the context marks them as secret."""


_Collected = tuple[Mapping[Any, Any], frozenset[str], _Secrets]
_last: _Collected = ({}, frozenset(), _Secrets((), (), (), ()))
"""The environment and the addresses from which secrets were last collected, and those secrets."""


def _secrets() -> _Secrets:
    global _last
    # The dictionary behind `os.environ`: comparing it takes microseconds, while reading all variables takes far longer.
    variables: Mapping[Any, Any] = vars(os.environ).get("_data", os.environ)
    environment, addresses, collected = _last
    if variables != environment or addresses != _from_addresses:
        environment, addresses = dict(variables), frozenset(_from_addresses)
        telling = [(name, value) for name, value in os.environ.items() if _is_secret(name) or "://" in value]
        collected = _collected(telling, addresses)
        _last = environment, addresses, collected
    return collected


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def _collected(environment: Iterable[tuple[str, str]], from_addresses: Iterable[str]) -> _Secrets:
    values = set(from_addresses)
    for name, value in environment:
        values.update(_secrets_in(value))
        if _is_secret(name) and not _is_path(value):
            values.update({value.strip(), *(line.strip() for line in value.splitlines())})
    values.discard("")
    strong = {value for value in values if not _is_weak(value)}
    distinct = {spelling for value in strong for spelling in _spellings(value)}
    spellings = sorted(distinct, key=lambda spelling: (-len(spelling.start), spelling))
    words = sorted(filter(_PLAIN_WORD.fullmatch, strong))
    plain = {word.lower() for word in words}
    unusual = [spelling for spelling in spellings if spelling.start not in plain]
    weak = sorted(values - strong, key=lambda value: (-len(value), value))
    return _Secrets(tuple(spellings), tuple(unusual), tuple(words), tuple(weak))


@lru_cache(64)
def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


@lru_cache(64)
def _weak(value: str) -> re.Pattern[str]:
    """Return a pattern for a weak value: as a password in an address and, if it has letters, after words like `key`."""
    pattern, before = re.escape(value), ""
    if len(value) > 2 and any(character.isalpha() for character in value):
        before = rf"({_SAYS_SECRET}s?\b[^\n]{{0,24}}?(?<![a-z0-9])){pattern}(?![a-z0-9])|"
    return re.compile(rf"{before}(:){pattern}(?=@)", re.I)


@lru_cache(64)
def _given_as_secret(word: str) -> re.Pattern[str]:
    """Return a pattern for a plain word where it is marked as a secret, or is the password in an address."""
    return re.compile(rf"({_SAYS_SECRET}s?[\"']?\s*[:=]\s*[\"']?){word}(?![a-z0-9])|(:){word}(?=@)", re.I)


def _is_weak(value: str) -> bool:
    letters = any(character.isalpha() for character in value)
    return len(value) < (_SHORTEST if letters else _SHORTEST_NUMBER) or value.lower() in _PLACEHOLDERS


def _is_path(value: str) -> bool:
    """Return whether a variable holds the path of a key, not the key itself."""
    try:
        return value.startswith(("/", "~")) and Path(value).expanduser().exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _secrets_in(text: str) -> Iterator[str]:
    """Yield the passwords and queries of the addresses in `text`, and user names that may be keys."""
    for address in _ADDRESS.findall(text):
        # Split from the right: an unencoded password may contain a `/` or an `@`.
        behind = address.partition("://")[2]
        before, at, _ = behind.rpartition("@")
        user, colon, password = before.partition(":")
        if at and (colon or "/" not in before):
            yield from (before, password) if password else ()
            yield from (user,) if _is_key(user) else ()
        query = address.partition("?")[2].partition("#")[0]
        yield from (query, *(value for _, value in parse_qsl(query)))


def _is_key(user: str) -> bool:
    name = unquote(user)
    return len(name) >= _SHORTEST and bool(_KEY_LIKE.search(name) or not _USER_NAME.fullmatch(name))


def _spellings(value: str) -> Iterator[_Spelling]:
    """Yield the ways to write a value, including the value itself."""
    plain = {value, unquote(value)}
    for form in plain.copy():
        plain |= {quote(form, safe=""), quote(form), quote_plus(form), html.escape(form), repr(form)[1:-1]}
        escaped = {json.dumps(form)[1:-1], json.dumps(form, ensure_ascii=False)[1:-1]}
        plain |= escaped | {text.replace("/", "\\/") for text in escaped} | {json.dumps(text)[1:-1] for text in escaped}
    for spelling in plain:
        yield _Spelling(spelling.lower(), re.escape(spelling))
        if len(spelling) > _TELLING_START + 3 and not _ORDINARY_START.search(spelling[:_TELLING_START]):
            start = spelling[:_TELLING_START]
            yield _Spelling(start.lower(), re.escape(start) + r"[\w+/=.-]*")
    for form in {value, unquote(value)}:
        yield from _in_base64(form.encode())


def _in_base64(value: bytes) -> Iterator[_Spelling]:
    """Yield the base64 spellings of a value: three, depending on the text before it.

    Three bytes make four characters. Characters at the ends that depend on neighbours are left out of the search; the
    match covers the whole word.
    """
    for shift in range(3):
        code = base64.b64encode(b"\0" * shift + value).decode()
        core = code[(shift * 8 + 5) // 6 : (shift + len(value)) * 8 // 6]
        if len(core) >= _SHORTEST:
            for spelling in {core, core.replace("+", "-").replace("/", "_")}:
                whole = rf"[A-Za-z0-9+/_-]*{re.escape(spelling)}[A-Za-z0-9+/_-]*={{0,2}}"
                yield _Spelling(spelling.lower(), whole)


# Addresses of endpoints: whether they can be called, and how their user information is sent.


class Address(NamedTuple):
    """An endpoint in the form that a client expects."""

    url: str
    """Address without user information."""
    headers: dict[str, str]
    """The user information as an HTTP header: `Authorization: Basic …` (RFC 7617). Empty if there is none."""


class Fault(NamedTuple):
    """Reason why an address cannot be called; neither text contains any part of the address."""

    what: str
    """The rest of a sentence that begins "The endpoint …"."""
    fix: str


def fault_of(address: str) -> Fault | None:
    """Return the fault of an OpenAI-compatible endpoint's address; None if it has none."""
    try:
        parts = urlsplit(address)
        callable_ = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, callable_ = SplitResult("", "", "", "", ""), False
    if "@" in parts.path or ("@" in address and not callable_):
        return Fault(
            "has a '/', '?', '#' or '@' in its user information",
            "Percent-encode it: / is %2F, ? is %3F, # is %23, @ is %40",
        )
    if not callable_:
        return Fault("is not a web address", "Write it whole, such as http://localhost:8000/v1")
    if parts.query or parts.fragment:
        return Fault(
            "has a query or a fragment, which calls to a model cannot carry",
            "Leave out everything from the '?' or '#' on; a key goes into the provider's variable (OPENAI_API_KEY), or "
            "before the host as user:password@",
        )
    return None


def split_address(address: str) -> Address:
    """Move the user information of `address` into a header; LiteLLM would refuse to call it otherwise."""
    parts = urlsplit(address)
    if "@" not in parts.netloc:
        return Address(address, {})
    information, _, host = parts.netloc.rpartition("@")
    user, _, password = information.partition(":")
    code = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return Address(urlunsplit(parts._replace(netloc=host)), {"Authorization": f"Basic {code}"})
