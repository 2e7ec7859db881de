"""Secrets are found by value, in every spelling, and nothing else is taken."""

import base64
import html
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longmemeval.core.secrets import redaction
from longmemeval.core.secrets.redaction import (
    MARK,
    hide,
    public_url,
    record_without_secrets,
    redact,
    register_address,
    without_secrets,
)
from longmemeval.errors import HarnessError
from tests.support import examples

VALUE = 'Kö9/x+"Q <7>&Zt\\w=='
"""With everything that some spelling changes."""


@pytest.fixture(autouse=True)
def own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_from_addresses", set())


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GATEWAY_API_KEY", VALUE)
    return VALUE


def basic(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def test_a_variable_that_changes_counts_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "first-planted-value and second-planted-value"
    assert without_secrets(text) == text
    monkeypatch.setenv("GATEWAY_API_KEY", "first-planted-value")
    assert without_secrets(text) == without_secrets(text) == "[redacted] and second-planted-value"
    monkeypatch.setenv("GATEWAY_API_KEY", "second-planted-value")
    assert without_secrets(text) == "first-planted-value and [redacted]"
    register_address("http://me:first-planted-value@host/")
    assert without_secrets(text) == "[redacted] and [redacted]"
    monkeypatch.delenv("GATEWAY_API_KEY")
    assert without_secrets(text) == "[redacted] and second-planted-value"


@pytest.mark.parametrize(
    "spelling",
    [
        VALUE,
        VALUE.upper(),
        quote(VALUE),
        quote(VALUE, safe=""),
        quote(VALUE, safe="").lower(),
        quote_plus(VALUE),
        html.escape(VALUE),
        repr(VALUE)[1:-1],
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        json.dumps(VALUE)[1:-1].replace("/", "\\/"),
        json.dumps(json.dumps(VALUE))[3:-3],
        base64.b64encode(VALUE.encode()).decode(),
        base64.urlsafe_b64encode(VALUE.encode()).decode().rstrip("="),
        *(basic("u" * length, VALUE) for length in range(4)),
        basic("user", VALUE + "more"),
    ],
)
def test_value_is_found_in_every_spelling(planted: str, spelling: str) -> None:
    assert without_secrets(f"it is {spelling}.") == f"it is {MARK}."


@pytest.mark.slow
@given(st.text(min_size=12), st.text(max_size=6))
@settings(max_examples=examples(60))
def test_any_value_is_found_in_base64(value: str, user: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        try:
            patch.setenv("SOME_TOKEN", value)
        except (ValueError, UnicodeEncodeError):
            return
        if len(value.strip()) < 12 or not any(map(str.isalpha, value)):
            return
        assert without_secrets(f"Basic {basic(user.replace(':', ''), value.strip())} x") == f"Basic {MARK} x"


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "api_key", "Key2", "MY_SECRET_PHRASE", "DB_PASSWORD", "gatewayToken", "HF_TOKEN"),
        *("APIKEY", "PGPASSWORD", "SMTP_PASS", "AWS_SECRET_ACCESS_KEY", "KEYS"),
    ],
)
def test_names_that_say_so(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "planted-value-1")
    assert without_secrets("planted-value-1") == MARK


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "KEYBOARD", "COMPASS_HEADING", "PASSAGE", "EDITOR"])
def test_names_that_do_not(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "planted-value-1")
    assert without_secrets("planted-value-1") == "planted-value-1"


def test_lines_of_a_long_value_and_what_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEM_KEY", "-----BEGIN-----\nabcdefghijklmnopqrstuvwxyz0123\nzyxwvutsrqponm9876\n-----END-----")
    assert without_secrets("line zyxwvutsrqponm9876") == f"line {MARK}"
    assert without_secrets("cut abcdefghijklmnopqrstuv... here") == f"cut {MARK} here"
    assert without_secrets("cut abcdefghijklmn... here") == "cut abcdefghijklmn... here"


@pytest.mark.parametrize(
    ("value", "text", "hidden"),
    [
        ("abc12", "The abc12 is a road.", "The abc12 is a road."),
        ("abc12", "Incorrect API key provided: abc12.", f"Incorrect API key provided: {MARK}."),
        ("abc12", '{"authorization": "Bearer abc12"}', f'{{"authorization": "Bearer {MARK}"}}'),
        ("abc12", "token abc123", "token abc123"),
        ("4096", "max_tokens=4096, token 4096", "max_tokens=4096, token 4096"),
        ("2024-05-01", "The key date is 2024-05-01", "The key date is 2024-05-01"),
        ("password", "My password manager", "My password manager"),
        ("password", "password: password", f"password: {MARK}"),
        ("a", "a key and a lock", "a key and a lock"),
    ],
)
def test_short_values_leave_ordinary_text_alone(
    monkeypatch: pytest.MonkeyPatch, value: str, text: str, hidden: str
) -> None:
    monkeypatch.setenv("SHORT_KEY", value)
    assert hide(text) == hidden
    assert without_secrets(text) == text


def test_path_of_a_key_is_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = str(tmp_path_factory.mktemp("keys"))
    monkeypatch.setenv("SSH_KEY_FOLDER", path)
    monkeypatch.setenv("OTHER_KEY", f"{path}/gone")
    assert without_secrets(f"{path}/data.json") == f"{path}/data.json"
    assert without_secrets(f"{path}/gone") == MARK


ADDRESS = "https://bob1:p%2Fw9secret@host.example:8443/v1?api_key=query-value-7&v=2024-02-01"


def test_address_that_was_given(planted: str) -> None:
    register_address(f"--api-base={ADDRESS}")
    for secret in ("p/w9secret", "p%2Fw9secret", "p%2fw9secret", "bob1:p%2Fw9secret", "query-value-7"):
        assert without_secrets(f"x {secret} y") == f"x {MARK} y"
    assert without_secrets(f"Basic {basic('bob1', 'p/w9secret')}") == f"Basic {MARK}"
    assert without_secrets("on 2024-02-01 at host.example") == "on 2024-02-01 at host.example"
    register_address(None)
    register_address("gpt-4o")


def test_addresses_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://corp:proxy-pass-1@proxy.example:3128")
    assert without_secrets("407 for corp:proxy-pass-1 (proxy-pass-1)") == f"407 for {MARK} ({MARK})"


def test_password_that_nobody_encoded() -> None:
    register_address("http://user:p/w@host/v1")
    assert hide("call http://user:p/w@host/v1 failed") == f"call http://{MARK}@host/v1 failed"
    assert base64.b64encode(b"user:p/w").decode() not in hide(f"Basic {basic('user', 'p/w')}")
    assert hide("a p/w b") == "a p/w b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Incorrect API key provided: sk-ab***yz", f"Incorrect API key provided: {MARK}"),
        ("got Bearer x9", f"got {MARK}"),
        ("got Basic dXNlcjpwdw==", f"got {MARK}"),
        ("Basic understanding is enough", "Basic understanding is enough"),
        ("POST https://host/v1/x?code=1&y=2 failed", f"POST https://host/v1/x?{MARK} failed"),
        ("POST /v1/x?api_key=77 failed", f"POST /v1/x?{MARK} failed"),
        ("see https://medium.com/@user/story", "see https://medium.com/@user/story"),
        ("at ftp://me:pw@host/x", f"at ftp://{MARK}@host/x"),
        ("id abcdefghijklmnopqrstuvwx1", f"id {MARK}"),
        ("internationalisation of counterrevolutionaries", "internationalisation of counterrevolutionaries"),
    ],
)
def test_what_looks_like_a_secret(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("http://user:pw@host:80/v1/?a=b#c", "http://host:80/v1"),
        ("https://host/v1/", "https://host/v1"),
        ("http://[::1]:8000/v1", "http://[::1]:8000/v1"),
        ("http://user@[::1]/v1", "http://[::1]/v1"),
        ("http://user:p/w@host/v1", f"http://{MARK}"),
        ("http://user:12/w@host/v1", f"http://{MARK}"),
        ("http://user:p?w@host/v1", f"http://{MARK}"),
        ("http://user:p#w@host/v1", f"http://{MARK}"),
        ("http://[::1", MARK),
        ("localhost:8000", "localhost:8000"),
    ],
)
def test_public_part_of_an_address(address: str, public: str) -> None:
    assert public_url(address) == public


def test_errors_hold_no_secret(planted: str) -> None:
    error = HarnessError(f"Refused {planted}", where=f"http://u:p@host, {planted}", fix=f"Not {planted}")
    assert str(error) == f"Refused {MARK} (http://{MARK}@host, {MARK}). Not {MARK}."
    assert planted not in repr(error)


@given(st.text(alphabet=st.characters(codec="ascii")))
def test_text_without_secrets_stays(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANTED_KEY", "\u2603\u2603never-in-ascii\u2603")
        assert without_secrets(text) == text or any(ord(one) > 127 for one in text)


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("postgresql://postgres@db.example/memories", "the postgres backend of postgres-demo"),
        ("postgresql://postgres:@db.example/memories", "postgres: ready"),
        ("redis://memory_reader@cache.example", "as memory_reader"),
        ("https://jane.doe%40corp.example@host/v1", "jane.doe@corp.example wrote"),
        ("bolt://graphreader2:a-password-of-9@graph.example", "graphreader2 may read"),
    ],
)
def test_a_user_name_is_no_secret(monkeypatch: pytest.MonkeyPatch, address: str, text: str) -> None:
    monkeypatch.setenv("DATABASE_URL", address)
    assert without_secrets(text) == hide(text) == text
    assert without_secrets("a-password-of-9") == (MARK if "password" in address else "a-password-of-9")


@pytest.mark.parametrize("key", ["ghp_Zk3vQ81mNw07Tr5yLx2b", "7f3a9b2c11d0", "sk-abcdefghijkl", "xKjPqRsTuVwXyZaB"])
@pytest.mark.parametrize("behind", ["", ":", ":x-oauth-basic"])
def test_a_key_in_the_place_of_a_user_name_is_one(key: str, behind: str) -> None:
    register_address(f"https://{key}{behind}@git.example/repository")
    assert without_secrets(f"cannot clone as {key}") == f"cannot clone as {MARK}"


def test_names_of_variables_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "postgres")
    monkeypatch.setenv("POSTGRES_HOST", "db.example")
    monkeypatch.setenv("SHORT_KEY", "neo4j")
    for text in ("Set POSTGRES_PASSWORD", "POSTGRES_HOST is db.example", "no key: set NEO4J_PASSWORD"):
        assert hide(text) == text
    assert hide("the postgres of POSTGRES_HOST, key neo4j") == f"the {MARK} of POSTGRES_HOST, key {MARK}"
    assert hide("POSTGRES") == MARK


def test_a_record_stays_one_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "postgres")
    monkeypatch.setenv("OTHER_PASSWORD", "u7-planted-value")
    record = {
        "run_id": "postgres-u7-planted-value",
        "postgres": {"backend": "postgres", "password": "postgres", "limit": 3, "others": ["a postgres", None]},
        "uri": "postgresql://me:postgres@host/postgres",
        "options": "password=postgres host=postgres u7-planted-value",
        "preset": "process:serve --token u7-planted-value",
    }
    assert record_without_secrets(record, {"run_id", "preset"}) == {
        "run_id": "postgres-u7-planted-value",
        "postgres": {"backend": "postgres", "password": MARK, "limit": 3, "others": ["a postgres", None]},
        "uri": f"postgresql://me:{MARK}@host/postgres",
        "options": f"password={MARK} host=postgres {MARK}",
        "preset": f"process:serve --token {MARK}",
    }
