"""The test server itself: other folders build on it."""

import httpx
import numpy as np

from tests.server import ModelServer, text_vector


def test_embeddings_are_the_same_in_both_encodings() -> None:
    # Slow to import: not where every worker collects.
    import openai

    with ModelServer(dimension=16) as server, openai.OpenAI(base_url=server.url, api_key="none") as client:
        floats = client.embeddings.create(model="m", input=["one", "two"], encoding_format="float").data
        packed = client.embeddings.create(model="m", input=["one", "two"]).data
        short = client.embeddings.create(model="m", input="one", dimensions=4).data
    vectors = np.array([item.embedding for item in floats], dtype=np.float32)
    assert vectors.shape == (2, 16)
    np.testing.assert_array_equal(vectors[0], text_vector("one", 16))
    np.testing.assert_array_equal(vectors, np.array([item.embedding for item in packed], dtype=np.float32))
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-6)
    assert len(short[0].embedding) == 4
    assert [request.path for request in server.requests] == ["/v1/embeddings"] * 3
    assert server.chat_requests == []


def test_embedding_faults_are_used_up() -> None:
    with ModelServer() as server:
        server.embedding_faults.append(503)
        body = {"model": "m", "input": ["text"]}
        statuses = [httpx.post(f"{server.url}/embeddings", json=body).status_code for _ in range(2)]
    assert statuses == [503, 200]


def test_models_are_listed() -> None:
    with ModelServer(served_model="llama") as server:
        assert httpx.get(f"{server.url}/models").json()["data"][0]["id"] == "llama"
