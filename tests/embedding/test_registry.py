from pathlib import Path

import pytest

from longmemeval.embedding.registry import is_offline_fallback, load_embedder
from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions


def test_hashing_has_512_dimensions_unless_told_otherwise() -> None:
    assert load_embedder("hashing").spec == "hashing:512"
    assert load_embedder("hashing:64").dimension == 64
    assert load_embedder("hashing:64").fingerprint == "hashing-v1:64"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hashin:512", "Did you mean 'hashing'"),
        ("fast-embed:x", "Did you mean 'fastembed'"),
        ("", "Valid: fastembed, hashing, openai"),
        ("models/minilm", "Valid: fastembed, hashing, openai"),
        ("hashing:", "Nothing follows the colon"),
        ("hashing:many", "not a whole number"),
        ("hashing:-5", "not a whole number"),
        ("hashing:0", "1 to 65536"),
        ("fastembed", "needs a model"),
        ("openai:", "openai:text-embedding-3-small"),
    ],
)
def test_bad_spec_says_what_would_be_right(spec: str, message: str) -> None:
    with pytest.raises(HarnessError, match=message):
        load_embedder(spec)


def test_damaged_cache_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(HarnessError, match=r"cache\.sqlite"):
        load_embedder("openai:small", ModelOptions("http://127.0.0.1:9/v1"), cache_path=path)


def test_only_hashing_is_the_offline_fallback() -> None:
    assert is_offline_fallback("hashing")
    assert is_offline_fallback("hashing:64")
    assert not is_offline_fallback("fastembed:hashing")
    assert not is_offline_fallback("openai:hashing")
