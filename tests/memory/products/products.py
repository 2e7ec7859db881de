"""What the tests of real products share: a model that extracts by rules, and the way from prepare to a table."""

import json
import re
import signal
import subprocess
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.server import ModelServer, RecordedRequest
from tests.support import COMMAND, clean_environment, json_lines, longmemeval, record, write_dataset

DIMENSION = 64
FIND_DIMENSION = ("hindsight",)
"""Products that find out by themselves how long vectors are."""
LABELS = ("answer_", "_abs", "gpt4", "planted", "noise_", "single-session", "has_answer")
"""What `planted` records carry in ids and labels, and nowhere else."""
_PROMPT = re.compile(r"## New Messages\n(.*?)\n## |<CURRENT[ _]MESSAGE>\n(.*?)</CURRENT[ _]MESSAGE>", re.DOTALL)


def words_vector(text: str, dimension: int) -> NDArray[np.float32]:
    """Texts that share words are near each other: shape (dimension,), float32, length 1."""
    vector = np.full(dimension, 1e-3, np.float32)
    for word in re.findall(r"\w+", text.lower()):
        vector[zlib.crc32(word.encode()) % dimension] += 1
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def extracted(body: dict[str, Any]) -> str:
    """The reply of a model that takes every line of a conversation for a fact."""
    asked = str(body["messages"][-1]["content"])
    lines, schema = _lines(body), body.get("response_format", {}).get("json_schema", {}).get("name", "")
    facts = [line.partition(": ")[2] for line in lines]
    if "fact_kind" in str(body["messages"]):
        return json.dumps({"facts": [_fact(one["content"]) for one in json.loads(asked.split("Content:\n")[1])]})
    entities = ["Speaker", "Listener"]
    reply: dict[str, object] = {
        "": {"memory": [{"id": str(place), "text": fact} for place, fact in enumerate(facts)]},
        "ExtractedEntities": {"extracted_entities": [{"name": name, "entity_type_id": 0} for name in entities]},
        "ExtractedEdges": {
            "edges": [
                {
                    "source_entity_name": entities[0],
                    "target_entity_name": entities[1],
                    "relation_type": f"SAID_{zlib.crc32(fact.encode())}",
                    "fact": fact,
                }
                for fact in facts
            ]
        },
        "EdgeDuplicate": {"duplicate_facts": [], "contradicted_facts": []},
        "NodeResolutions": {"entity_resolutions": []},
        "SummarizedEntities": {"summaries": []},
        "EdgeTimestamps": _times(asked),
    }
    return json.dumps(reply[schema])


def _fact(text: str) -> dict[str, object]:
    """A fact as Hindsight asks for it."""
    unknown = dict.fromkeys(("when", "where", "who", "why"), "N/A")
    kinds = {"fact_kind": "conversation", "fact_type": "world", "entities": [], "causal_relations": []}
    return {"what": text, **unknown, **kinds}


def _lines(body: dict[str, Any]) -> list[str]:
    """The messages that facts are to be extracted from."""
    parts = _PROMPT.findall(str(body["messages"][-1]["content"]))
    return next(([line for line in (one or other).splitlines() if line] for one, other in parts), [])


def _times(asked: str) -> dict[str, str | None]:
    """A fact is valid from when it is said; one about a bicycle ends a day later."""
    said = re.search(r"<REFERENCE TIME>\s*(\S+?)T", asked)
    day = said[1] if said else "2000-01-01"
    return {"valid_at": f"{day}T00:00:00Z", "invalid_at": f"{day[:-2]}29T00:00:00Z" if "bicycle" in asked else None}


def planted(number: int) -> dict[str, Any]:
    """A record whose ids and labels would give the evidence away; its history tells of a bicycle."""
    sessions = ["noise_a", f"answer_of_{number}", "noise_b"]
    changes = {"haystack_session_ids": sessions, "answer_session_ids": [f"answer_of_{number}"]}
    made = record(f"gpt4_planted{number}_abs", **changes)
    made["haystack_sessions"][1][0]["content"] = f"I painted my bicycle green today, coat {number}"
    return made


def endpoint_settings(name: str, server: ModelServer, *, chats: bool = True) -> list[str]:
    """What is set on a product, as `key=value`, so that it calls an endpoint: for vectors alone, or to chat too."""
    vectors = [f"embedding_base_url={server.url}", "embedding_model=e"]
    if not chats:
        return vectors
    dimension = [] if name in FIND_DIMENSION else [f"embedding_dimension={DIMENSION}"]
    return [*vectors, f"chat_base_url={server.url}", "chat_model=m", *dimension]


class Tried:
    """A product in a folder, with an endpoint that keeps every request.

    Args:
        name: of its adapter.
        folder: where it is installed, and where commands run.
        server: the endpoint.
        configuration: what is set on it, as `key=value`.
        chats: whether it asks a chat model, and not only for vectors.
    """

    def __init__(self, name: str, folder: Path, server: ModelServer, *configuration: str, chats: bool = True) -> None:
        settings = [*endpoint_settings(name, server, chats=chats), *configuration]
        self.name, self.folder, self.server = name, folder, server
        self.words = ["--memory", name, *(word for one in settings for word in ("--set", one))]

    def call(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """A verb with `--memory` and `--set`."""
        return longmemeval(*arguments, *self.words, cwd=self.folder, code=code)

    def checked(self) -> dict[str, str]:
        """What `memory check` found, by what was tried."""
        words = [word for word in self.words if word not in ("--memory", self.name)]
        told = json.loads(longmemeval("memory", "check", self.name, *words, "--json", cwd=self.folder).stdout)
        return {one["what"]: one["state"] for one in told}

    def prepared_after_a_kill(self, data: str) -> tuple[set[str], list[RecordedRequest]]:
        """Prepare, kill -9 when a history is there, and prepare again to the end.

        Returns:
            Which were there, and what was asked afterwards.
        """
        command = [*COMMAND, "prepare", "--dataset", data, "--jobs", "1", *self.words]
        fixtures = self.folder / "prepared-data" / Path(data).stem / "default"

        def finished() -> set[str]:
            return {path.parent.name for path in fixtures.glob("*/meta.json") if f'"{self.name}-' in path.read_text()}

        with subprocess.Popen(command, cwd=self.folder, env=clean_environment(), stderr=subprocess.PIPE) as process:
            while not finished():
                assert process.poll() is None, process.stderr and process.stderr.read()
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        there, before = finished(), len(self.server.requests)
        self.call("prepare", "--dataset", data, "--jobs", "1")
        return there, self.server.requests[before:]

    def kept(self) -> bytes:
        """Every byte and every name of what the product keeps in the fixtures."""
        states = (self.folder / "prepared-data").glob(f"*/default/*/{self.name}-*/state")
        files = [path for state in states for path in state.rglob("*") if path.is_file()]
        assert files
        return b"".join(path.read_bytes() + path.name.encode() for path in files)

    def sent(self) -> str:
        """Every request of the product."""
        return json.dumps([one.body for one in self.server.requests])

    def answers(self, run_id: str) -> list[dict[str, Any]]:
        """Of a run."""
        return json_lines(self.folder / "results" / run_id / "answers.jsonl")


@contextmanager
def endpoint() -> Iterator[ModelServer]:
    """A model that extracts by rules, and vectors of words."""
    with ModelServer(extracted, dimension=DIMENSION, vector=words_vector) as server:
        yield server


def from_prepare_to_a_table(tried: Tried) -> str:
    """Prepare three planted histories, killed when one is there, run, evaluate, and compare with `bm25`.

    What holds for every product is asserted: nothing that is finished is asked for again, no label leaves, every
    question is answered.

    Args:
        tried: the product.

    Returns:
        The table.
    """
    folder, server = tried.folder, tried.server
    records = [planted(number) for number in range(3)]
    write_dataset(folder / "d.json", *records)
    there, later = tried.prepared_after_a_kill("d.json")
    asked = "".join(json.dumps(request.body) for request in later)
    for number, one in enumerate(records):
        assert (f"coat {number}" in asked) == (one["question_id"] not in there)
    everything = len(server.requests)
    assert "Already prepared" in tried.call("prepare", "--dataset", "d.json").stdout
    assert len(server.requests) == everything
    tried.call("run", "--dataset", "d.json", "--model", "offline/extractive", "--run-id", "product")
    assert [one["status"] for one in tried.answers("product")] == ["ok"] * 3
    longmemeval("prepare", "--dataset", "d.json", "--memory", "bm25", cwd=folder)
    plain = ("--dataset", "d.json", "--memory", "bm25", "--model", "offline/extractive", "--run-id", "bm25")
    longmemeval("run", *plain, cwd=folder)
    for run_id in ("product", "bm25"):
        longmemeval("evaluate", run_id, "--judge", "offline/lexical", cwd=folder)
    sent, kept = tried.sent().lower(), tried.kept().lower()
    assert "bicycle" in sent
    for label in LABELS:
        assert label not in sent, label
        assert label.encode() not in kept, label
    return longmemeval("compare", "product", "bm25", "--tables", "--notes", cwd=folder).stdout
