"""Addresses of endpoints: whether they can be called, and how their user information is sent."""

import base64
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit


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
