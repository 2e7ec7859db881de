import base64
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longmemeval.core.defaults import EMBED_BATCH
from longmemeval.embedding.cache import CHUNK_TEXTS
from longmemeval.embedding.protocol import EmbedderSettings
from longmemeval.embedding.registry import load_embedder
from longmemeval.embedding.remote import MAX_BATCH_CHARACTERS, RemoteEmbedder
from longmemeval.errors import EndpointDownError, FatalModelError, HarnessError, ModelError, SpendingLimitError
from longmemeval.llm.costs import Account, spent_in
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.llm.rates import Rate, RateLimits
from longmemeval.records import Usage
from tests.clock import Clock
from tests.embedding.server import EmbeddingServer, Reply, embedding_server, error_reply, good_reply
from tests.server import ModelServer, black_hole, nobody
from tests.support import json_lines

KEY = "sk-very-secret-0123456789"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as running:
        yield running


def test_rows_are_unit_vectors_in_the_order_of_the_texts(server: EmbeddingServer) -> None:
    vectors = RemoteEmbedder("small", EmbedderSettings(server.base)).embed(["red", "blue", "red"])
    assert vectors == pytest.approx(np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0], [0.6, 0.8, 0.0]]))
    assert vectors.dtype == np.float32
    assert server.authorizations == [f"Bearer {KEY}"]


def test_shuffled_reply_is_put_in_order_by_index(server: EmbeddingServer) -> None:
    reply = good_reply(["red", "blue", "green"])
    reply.body["data"].reverse()
    server.script.append(reply)
    vectors = RemoteEmbedder("small", EmbedderSettings(server.base)).embed(["red", "blue", "green"])
    assert vectors == pytest.approx(np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))


def test_batches_keep_both_limits(server: EmbeddingServer) -> None:
    embedder = RemoteEmbedder("small", EmbedderSettings(server.base))
    embedder.embed([f"text {i}" for i in range(2 * EMBED_BATCH + 1)])
    assert [len(batch) for batch in server.batches] == [EMBED_BATCH, EMBED_BATCH, 1]
    server.batches.clear()
    huge, half = "x" * (MAX_BATCH_CHARACTERS + 1), "y" * (MAX_BATCH_CHARACTERS // 2)
    embedder.embed(["a", huge, half, half, "b"])
    assert server.batches == [["a"], [huge], [half, half], ["b"]]


def test_blank_texts_get_zero_rows_and_are_not_sent(server: EmbeddingServer) -> None:
    vectors = RemoteEmbedder("small", EmbedderSettings(server.base)).embed(["", "red", " \n"])
    assert vectors == pytest.approx(np.array([[0.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 0.0]]))
    assert server.batches == [["red"]]


def test_dimension_is_learnt_once(server: EmbeddingServer) -> None:
    embedder = RemoteEmbedder("small", EmbedderSettings(server.base))
    assert embedder.embed([""]).shape == (1, 3)
    assert embedder.dimension == 3
    assert len(server.batches) == 1


def test_usage_is_summed_and_priced(server: EmbeddingServer) -> None:
    priced = load_embedder("openai:text-embedding-3-small", ModelOptions(server.base))
    priced.embed(["two words", "and three words"])
    priced.embed(["one"])
    # 0.02 dollars per million tokens
    assert (priced.usage.calls, priced.usage.prompt_tokens, priced.usage.unpriced_calls) == (2, 6, 0)
    assert priced.usage.cost_usd == pytest.approx(6 * 0.02 / 1_000_000)


def test_unknown_price_is_counted_as_unknown(server: EmbeddingServer, capfd: pytest.CaptureFixture[str]) -> None:
    embedder = RemoteEmbedder("a-model-of-ones-own", EmbedderSettings(server.base))
    embedder.embed(["two words"])
    assert embedder.usage == Usage(calls=1, prompt_tokens=2, unpriced_calls=1)
    assert capfd.readouterr().out == ""


def test_reply_without_usage_counts_as_unpriced(server: EmbeddingServer) -> None:
    reply = good_reply(["red"])
    reply.body["usage"] = None
    server.script.append(reply)
    embedder = RemoteEmbedder("text-embedding-3-small", EmbedderSettings(server.base))
    embedder.embed(["red"])
    # Tokens of cl100k_base, at 0.02 dollars a million.
    assert embedder.usage == Usage(calls=1, prompt_tokens=1, cost_usd=embedder.usage.cost_usd, estimated_calls=1)
    assert embedder.usage.cost_usd == pytest.approx(0.02e-6)


@pytest.mark.parametrize(
    "usage",
    [
        *({}, {"prompt_tokens": 0}, {"prompt_tokens": None}, {"prompt_tokens": -3}, {"prompt_tokens": "few"}, [], "x"),
        {"prompt_tokens": 1, "total_tokens": 1},  # A text has a token at least.
    ],
)
def test_what_the_server_does_not_count_is_counted_here(server: EmbeddingServer, tmp_path: Path, usage: object) -> None:
    server.script.append(good_reply(texts := ["red", "Where does my dog sleep?"]))
    server.script[0].body["usage"] = usage
    account = Account(tmp_path / "a", SpendingLimit(1.0))
    embedder = RemoteEmbedder("text-embedding-3-small", EmbedderSettings(server.base, account=account))
    embedder.embed(texts)
    assert embedder.usage == Usage(1, 0, 7, 0, embedder.usage.cost_usd, 0, 1)
    assert embedder.usage.cost_usd == pytest.approx(7 * 0.02e-6)
    assert json_lines(tmp_path / "a")[-1]["cost_usd"] == embedder.usage.cost_usd


@pytest.mark.parametrize("usage", [{"prompt_tokens": "9"}, {"total_tokens": 9}, {"prompt_tokens": 9.0, "x": None}])
def test_what_the_server_counts_is_its_own(server: EmbeddingServer, usage: object) -> None:
    server.script.append(good_reply(["red"]))
    server.script[0].body["usage"] = usage
    embedder = RemoteEmbedder("text-embedding-3-small", EmbedderSettings(server.base))
    embedder.embed(["red"])
    assert embedder.usage == Usage(1, 0, 9, 0, embedder.usage.cost_usd)
    assert embedder.usage.cost_usd == pytest.approx(9 * 0.02e-6)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_passing_failure_is_retried(server: EmbeddingServer, status: int) -> None:
    server.script += [error_reply(status, "later")] * 3
    vectors = RemoteEmbedder("small", EmbedderSettings(server.base)).embed(["red"])
    assert vectors == pytest.approx(np.array([[0.6, 0.8, 0.0]]))
    assert len(server.batches) == 4


def test_lasting_failure_ends_after_the_retries(server: EmbeddingServer) -> None:
    server.script += [error_reply(500, "broken")] * 7
    with pytest.raises(ModelError, match=r"failed after all retries: .*broken.*finished embeddings are kept"):
        RemoteEmbedder("small", EmbedderSettings(server.base)).embed(["red"])
    assert len(server.batches) == 7


@pytest.mark.slow
def test_dead_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("longmemeval.embedding.remote._FIRST_PAUSE_S", 0.001)
    with socket.create_server(("127.0.0.1", 0)) as free:
        base = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ModelError, match=rf"refused.*{base}"):
        RemoteEmbedder("small", EmbedderSettings(base)).embed(["red"])


@pytest.mark.slow
@pytest.mark.parametrize("dead", [nobody, black_hole])
def test_dead_server_is_given_up_in_time(dead: Callable[[], str] | Callable[[], AbstractContextManager[str]]) -> None:
    place = dead()
    expected = pytest.raises(EndpointDownError, match=r"failed every call for \d s.*--give-up-after")
    with nullcontext(place) if isinstance(place, str) else place as base, expected as caught:
        RemoteEmbedder("small", EmbedderSettings(base, give_up_after_s=1.2)).embed(["red"])
    assert caught.value.exit_code == 1


def test_server_that_never_answers_is_given_up_in_time() -> None:
    with ModelServer() as server:
        server.plan = lambda: "hang"
        with pytest.raises(EndpointDownError, match="failed every call"):
            RemoteEmbedder("small", EmbedderSettings(server.url, give_up_after_s=1.0)).embed(["red"])


def test_a_wait_that_the_server_asks_for_is_kept(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.script.append(Reply({"error": {"message": "later"}}, 429, {"retry-after": "100"}))
    clock = Clock(monkeypatch)
    started = clock.monotonic()
    RemoteEmbedder("small", EmbedderSettings(server.base, give_up_after_s=100.0)).embed(["red"])
    assert clock.monotonic() - started >= 100


@pytest.mark.parametrize("status", [429, 503])
def test_a_longer_wait_than_the_user_allows_ends_the_command(server: EmbeddingServer, status: int) -> None:
    server.script.append(Reply({"error": {"message": "closed today"}}, status, {"retry-after": "100"}))
    with pytest.raises(EndpointDownError, match=r"asks to wait 2 min.*50 s.*closed today.*--give-up-after 100"):
        RemoteEmbedder("small", EmbedderSettings(server.base, give_up_after_s=50.0)).embed(["red"])
    assert len(server.batches) == 1


@pytest.mark.parametrize("value", ["inf", "1e9", "soon", "-5", "0"])
def test_a_wait_that_is_none_leaves_our_own(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    server.script += [Reply({"error": {"message": "later"}}, 503, {"retry-after": value})] * 2
    clock = Clock(monkeypatch)
    started = clock.monotonic()
    RemoteEmbedder("small", EmbedderSettings(server.base)).embed(["red"])
    assert 1.4 <= clock.monotonic() - started < 10


def test_attempts_are_written_into_the_account(server: EmbeddingServer, tmp_path: Path) -> None:
    account = Account(tmp_path / "a", SpendingLimit(1.0))
    server.script += [error_reply(429, "later"), error_reply(503, "later")]
    embedder = RemoteEmbedder("text-embedding-3-small", EmbedderSettings(server.base, account=account))
    embedder.embed(["two words"])
    entries = json_lines(tmp_path / "a")
    reserved = [entry["reserved_usd"] for entry in entries if "reserved_usd" in entry]
    costs = [entry["cost_usd"] for entry in entries if "cost_usd" in entry]
    # Refused: free. Failed on the server's side: perhaps billed. Answered: what the reply says.
    assert costs == [0.0, reserved[1], pytest.approx(2 * 0.02 / 1_000_000)]
    spent = Account(tmp_path / "a", SpendingLimit(sum(costs)))
    with pytest.raises(SpendingLimitError):
        RemoteEmbedder("text-embedding-3-small", EmbedderSettings(server.base, account=spent)).embed(
            ["three more words"]
        )


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (error_reply(401, f"Incorrect key:\n{KEY}"), r"refuses the key: .*\[redacted\].*OPENAI_API_KEY"),
        (error_reply(402, "pay"), "needs credit on the account"),
        (error_reply(403, "not for you"), "refuses access"),
        (error_reply(404, "no model 'smal'"), "no model 'smal'"),
    ],
)
def test_refusal_is_fatal_at_once_and_hides_the_key(server: EmbeddingServer, reply: Reply, message: str) -> None:
    server.script.append(reply)
    with pytest.raises(FatalModelError, match=message) as caught:
        RemoteEmbedder("small", EmbedderSettings(server.base)).embed(["red"])
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert len(server.batches) == 1


def test_empty_account_is_fatal(server: EmbeddingServer) -> None:
    server.script += [error_reply(429, "quota exceeded", code="insufficient_quota")] * 7
    with pytest.raises(FatalModelError, match="account is empty"):
        RemoteEmbedder("small", EmbedderSettings(server.base)).embed(["red"])


def refusing(refusal: Reply, refused: Callable[[list[str]], bool]) -> Callable[[list[str]], Reply]:
    return lambda texts: refusal if refused(texts) else good_reply(texts)


@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_text_too_long_is_an_error_that_quotes_it(server: EmbeddingServer, status: int, tmp_path: Path) -> None:
    """The texts around it are embedded, kept, and not paid for again."""
    refusal = error_reply(status, "This model's maximum context length is 8192 tokens")
    server.answer = refusing(refusal, lambda texts: any(len(text) > 100 for text in texts))
    texts = [*(f"text {i}" for i in range(6)), "Once upon a time " * 5000, "blue"]
    embedder = load_embedder("openai:small", ModelOptions(server.base), cache_path=tmp_path / "cache.sqlite")
    with pytest.raises(
        ModelError, match=r"85,000 characters, which begins 'Once upon a time .*maximum context"
    ) as caught:
        embedder.embed(texts)
    assert "wider window" in str(caught.value)
    assert len(str(caught.value)) < 600
    server.batches.clear()
    embedder.embed([*texts[:6], *(f"another {i}" for i in range(128))])
    assert [len(batch) for batch in server.batches] == [128]  # The limit of a call was not the reason.


MOST_FOUR = [
    Reply({"error": {"message": "batch size 6 > maximum allowed batch size 4", "type": "Validation"}}, 413),
    Reply({"error": "batch size 6 > maximum allowed batch size 4", "error_type": "Validation"}, 422),
    error_reply(400, "Too many inputs. Max allowed batch size is 4."),
    error_reply(400, "Value error: at most 4 documents, please"),
    error_reply(500, "input is too large to process. increase the physical batch size"),
    error_reply(429, "Request too large for small on tokens per min (TPM): Limit 4, Requested 6."),
    Reply(b"<html>413 Request Entity Too Large</html>", 413),
    Reply({"detail": [{"type": "too_long", "loc": ["body", "input"], "msg": "at most 4 items"}]}, 422),
]


@pytest.mark.parametrize("refusal", MOST_FOUR, ids=lambda reply: str(reply.body)[:30])
def test_too_many_texts_are_sent_in_smaller_calls_from_then_on(
    server: EmbeddingServer, refusal: Reply, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    server.answer = refusing(refusal, lambda texts: len(texts) > 4)
    account = Account(tmp_path / "a", SpendingLimit(1.0))
    embedder = load_embedder("openai:text-embedding-3-small", ModelOptions(server.base), account=account)
    texts = [f"text {i}" for i in range(200)]
    vectors = embedder.embed(["red", *texts, "", "blue"])
    assert vectors[[0, -1]] == pytest.approx(np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]]))
    assert [len(batch) for batch in server.batches[:5]] == [128, 64, 32, 16, 8]
    answered = server.batches[5:]
    assert max(map(len, answered)) == 4
    assert [text for batch in answered for text in batch] == ["red", *texts, "blue"]
    assert [record.getMessage() for record in caplog.records if "texts a call" in record.getMessage()] == [
        "openai:text-embedding-3-small: the server takes no more than 4 texts a call"
    ]
    if refusal.status < 500:  # Otherwise it may have been billed.
        assert spent_in(tmp_path / "a") == pytest.approx(embedder.usage.cost_usd)
    server.batches.clear()
    load_embedder("openai:text-embedding-3-small", ModelOptions(server.base)).embed(texts[:9])
    assert [len(batch) for batch in server.batches] == [4, 4, 1]


@pytest.mark.parametrize("most", [1, 3])
def test_the_user_says_how_many_texts_go_into_a_call(server: EmbeddingServer, most: int) -> None:
    load_embedder("openai:small", ModelOptions(server.base, embed_batch=most)).embed([f"text {i}" for i in range(9)])
    assert {len(batch) for batch in server.batches} == {most}


def test_busy_is_not_too_large(server: EmbeddingServer) -> None:
    said = ["Too Many Requests", "Rate limit reached on maximum tokens per min"]
    server.script += [error_reply(429, text) for text in said]
    load_embedder("openai:small", ModelOptions(server.base)).embed(["red", "blue"])
    assert server.batches == [["red", "blue"]] * 3


@pytest.mark.parametrize(
    "refusal",
    [
        error_reply(400, "base64 encoding is not currently supported"),
        error_reply(400, "Unknown parameter: 'encoding_format'"),
        Reply({"detail": [{"loc": ["body", "encoding_format"], "msg": "Extra inputs are not permitted"}]}, 422),
    ],
)
def test_a_refused_encoding_is_left_out(server: EmbeddingServer, refusal: Reply) -> None:
    server.script.append(refusal)
    embedder = RemoteEmbedder("small", EmbedderSettings(server.base))
    embedder.embed(["red", "blue"])
    embedder.embed(["green"])
    assert [body.get("encoding_format") for body in server.bodies] == ["float", None, None]


def test_a_server_of_single_texts_gets_them_by_themselves(server: EmbeddingServer) -> None:
    said = {"detail": [{"loc": ["body", "input"], "msg": "Input should be a valid string"}]}
    server.answer = lambda given: Reply(said, 422) if isinstance(given, list) else good_reply([given])
    vectors = load_embedder("openai:small", ModelOptions(server.base)).embed(["red", "blue", "red"])
    assert vectors == pytest.approx(np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0], [0.6, 0.8, 0.0]]))
    assert [body["input"] for body in server.bodies[-2:]] == ["red", "blue"]


def test_a_refusal_that_has_nothing_to_do_with_length_says_nothing_of_it(server: EmbeddingServer) -> None:
    server.answer = lambda texts: error_reply(400, "Model does not support matryoshka representation")
    with pytest.raises(ModelError, match="matryoshka") as caught:
        load_embedder("openai:small", ModelOptions(server.base)).embed(["red", "blue"])
    assert "window" not in str(caught.value)


def in_base64(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@pytest.mark.parametrize(
    "items",
    [
        [{"embedding": [3, 4, 0]}, {"embedding": [0, 0, 2]}],
        [{"index": 0, "embedding": in_base64(3, 4, 0)}, {"index": 1, "embedding": in_base64(0, 0, 2)}],
        [{"index": "1", "embedding": [0, 0, 2]}, {"index": "0", "embedding": [3, 4, 0]}],
        [{"index": None, "embedding": ["3", "4", "0"]}, {"index": None, "embedding": [0.0, 0, 2]}],
    ],
)
def test_vectors_are_read_in_other_forms(server: EmbeddingServer, items: list[dict[str, Any]]) -> None:
    server.script.append(with_data(*items))
    vectors = RemoteEmbedder("small", EmbedderSettings(server.base)).embed(["red", "blue"])
    assert vectors == pytest.approx(np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]]))


@pytest.mark.parametrize(("rates", "seconds"), [(Rate(rpm=60), 1.0), (Rate(tpm=600), 8.0)])
def test_limits_hold_for_embedders(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, rates: Rate, seconds: float
) -> None:
    """A call a second, or ten tokens: of three calls, of 45 tokens each, the first may come with the second."""
    clock = Clock(monkeypatch)
    limits = RateLimits((("openai:*", rates),))
    began = clock.monotonic()
    options = ModelOptions(server.base, embed_batch=1, rates=limits)
    load_embedder(f"openai:of-{seconds}", options).embed([f"{letter} " * 90 for letter in "abc"])
    assert len(server.batches) == 3
    assert clock.monotonic() - began >= seconds


def with_data(*items: dict[str, Any]) -> Reply:
    return Reply({"data": list(items), "usage": {"prompt_tokens": 1}})


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b'{"data": [{"index": 0, "embedding": [1.'),
        Reply(b"<html>a proxy's page</html>", headers={"content-type": "text/html"}),
        Reply({"data": None}),
        Reply({"detail": "ok"}),
        with_data({"index": 0, "embedding": [1.0]}),
        with_data({"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}),
        with_data({"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}),
        with_data({"index": 0, "embedding": []}, {"index": 1, "embedding": []}),
        with_data({"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [None]}),
        Reply(b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1e999]}]}'),
        Reply(b'{"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [NaN]}]}'),
        with_data({"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1e300]}),
        with_data({"index": 0, "embedding": [[1.0]]}, {"index": 1, "embedding": [[1.0]]}),
        with_data({"index": 0, "embedding": in_base64(1.0)[:-3]}, {"index": 1, "embedding": in_base64(1.0)}),
        with_data({"index": 0, "embedding": in_base64(float("nan"))}, {"index": 1, "embedding": in_base64(1.0)}),
        with_data({"embedding": [1.0]}),
        with_data({"embedding": [1.0]}, {"index": 0, "embedding": [1.0]}),
        with_data({"index": 1, "embedding": [1.0]}, {"index": 2, "embedding": [1.0]}),
        Reply([{"index": 0, "embedding": [[1.0]]}, {"index": 1, "embedding": [[1.0]]}]),
    ],
)
def test_garbage_is_refused(server: EmbeddingServer, reply: Reply) -> None:
    server.script.append(reply)
    with pytest.raises(ModelError, match="does not follow the OpenAI protocol"):
        RemoteEmbedder("small", EmbedderSettings(server.base)).embed(["red", "blue"])


def test_change_of_dimension_is_refused(server: EmbeddingServer) -> None:
    embedder = RemoteEmbedder("small", EmbedderSettings(server.base))
    embedder.embed(["red"])
    server.script.append(with_data({"index": 0, "embedding": [1.0, 0.0]}))
    with pytest.raises(ModelError, match="2 numbers after vectors of 3"):
        embedder.embed(["blue"])


def test_failure_keeps_what_was_paid_for(server: EmbeddingServer, tmp_path: Path) -> None:
    texts = [f"text {i}" for i in range(CHUNK_TEXTS + 5)]
    server.script += [good_reply(texts[:128]), good_reply(texts[128:256]), error_reply(401, "revoked")]
    cache = tmp_path / "cache.sqlite"
    with pytest.raises(FatalModelError):
        load_embedder("openai:small", ModelOptions(server.base), cache_path=cache).embed(texts)
    server.batches.clear()
    resumed = load_embedder("openai:small", ModelOptions(server.base), cache_path=cache)
    resumed.embed(texts)
    assert server.batches == [texts[CHUNK_TEXTS:]]
    assert (resumed.hits, resumed.misses, resumed.usage.calls) == (CHUNK_TEXTS, 5, 1)


@pytest.mark.parametrize("vector", [[0.0, 0.0, 0.0], [1e-200, 0.0, 0.0]])
def test_zeros_are_refused_by_name_and_not_kept(server: EmbeddingServer, tmp_path: Path, vector: list[float]) -> None:
    cache = tmp_path / "cache.sqlite"
    embedder = load_embedder("openai:small", ModelOptions(server.base), cache_path=cache)
    server.script.append(with_data({"index": 0, "embedding": [1, 0, 0]}, {"index": 1, "embedding": vector}))
    with pytest.raises(HarnessError, match="only zeros as the vector of 1 of 2 texts, such as 'blue'") as caught:
        embedder.embed(["red", "", "blue"])
    assert caught.value.where == "openai:small"
    assert embedder.missing(["red", "blue"]) == ["red", "blue"]
    assert embedder.embed(["blue", ""]).tolist() == [[0, 0, 1], [0, 0, 0]]


def test_full_cache_makes_no_call(server: EmbeddingServer, tmp_path: Path) -> None:
    cache = tmp_path / "cache.sqlite"
    first = load_embedder("openai:small", ModelOptions(server.base), cache_path=cache).embed(["red", ""])
    server.batches.clear()
    again = load_embedder("openai:small", ModelOptions(server.base), cache_path=cache)
    assert again.dimension == 3
    assert np.array_equal(again.embed(["red", ""]), first)
    assert server.batches == []
    assert again.usage == Usage()


def test_missing_key_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(FatalModelError, match=r"OPENAI_API_KEY.*--api-base"):
        load_embedder("openai:text-embedding-3-small")


def test_server_of_ones_own_needs_no_key(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert RemoteEmbedder("small", EmbedderSettings(server.base)).dimension == 3
    monkeypatch.setenv("OPENAI_BASE_URL", server.base)
    assert RemoteEmbedder("small", EmbedderSettings()).dimension == 3


def test_fingerprint_names_model_and_endpoint_but_no_secret() -> None:
    embedder = RemoteEmbedder("small", EmbedderSettings("https://me:password@models.example:8443/v1/"))
    assert embedder.fingerprint == "openai:small@https://models.example:8443/v1"
    assert embedder.spec == "openai:small"


@pytest.mark.parametrize(
    "base", ["localhost:8000/v1", "ftp://models.example", "http://", "http://[::1", "http://a:port"]
)
def test_address_that_is_none_is_refused(base: str) -> None:
    with pytest.raises(HarnessError, match="not a web address"):
        load_embedder("openai:small", ModelOptions(base))


@pytest.mark.parametrize(
    ("base", "secret", "reason"),
    [
        ("https://models.example/v1?token=abcdef12", "abcdef12", "query"),
        ("https://me:pa/ss@models.example/v1", "pa/ss", "Percent-encode"),
        ("https://me:pa?ss@models.example/v1", "pa?ss", "Percent-encode"),
    ],
)
def test_address_that_calls_cannot_carry_is_refused_without_its_secret(base: str, secret: str, reason: str) -> None:
    with pytest.raises(HarnessError, match=reason) as refused:
        load_embedder("openai:small", ModelOptions(base))
    assert secret not in str(refused.value)
