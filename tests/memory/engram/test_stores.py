"""Facts and vectors asked for in databases that are really there: the same answers as in memory."""

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import numpy as np
import pytest

from longmemeval.core.arrays import Vectors
from longmemeval.errors import HarnessError
from longmemeval.memory.engram import Engram
from longmemeval.memory.engram.records import Fact
from longmemeval.memory.engram.stores.embedded import EmbeddedFacts, EmbeddedVectors, fill_facts, fill_vectors
from longmemeval.memory.engram.stores.kinds import Namespace, stores_of_side
from longmemeval.memory.engram.stores.opening import namespace, open_facts, open_vectors
from longmemeval.memory.engram.stores.protocol import When
from longmemeval.records import Session, Turn
from tests.memory.engram.databases import Begin, needed
from tests.memory.engram.test_life import lived, questions
from tests.support import ROOT

# One worker begins the servers.
pytestmark = [pytest.mark.xdist_group("databases"), pytest.mark.slow]

START = datetime(2024, 1, 1)
NAMES = ("user", "Ida", 'O\'Brien "x"', "back\\slash", "{a: $b}", "Zoë\nNew", "null\0byte", "user's sister")
PREDICATES = ("home", "count:bikes", "count", "counts", "likes")
FACT_STORES = tuple(name for name in stores_of_side("facts") if name != "embedded")
VECTOR_STORES = tuple(name for name in stores_of_side("vectors") if name != "embedded")


def place(folder: Path, label: str = "History") -> Namespace:
    return namespace(label, f"{label} {folder}", folder)


def some_facts(number: int, seed: int = 0) -> list[Fact]:
    """Versions with names that no query language likes, on all sorts of times, with each of its earlier versions."""
    chance = random.Random(seed)
    facts: list[Fact] = []
    for fact in range(number):
        began = START + timedelta(minutes=chance.randrange(4 * 1440), microseconds=chance.randrange(3))
        learned = [START + timedelta(days=chance.randrange(9)) for _ in range(chance.randint(1, 3))]
        learned.sort()
        subject, predicate, value = (chance.choice(one) for one in (NAMES, PREDICATES, (*NAMES, "Rome")))
        for version, created in enumerate(learned):
            facts.append(
                Fact(
                    version_id=f"f{fact}.{version + 1}",
                    subject=subject,
                    predicate=predicate,
                    object=value,
                    text=f"{subject} {predicate} {value} {fact}",
                    episode_ids=tuple(f"s:{fact % 7}:{number}" for number in range(version + 1)),
                    valid_at=began,
                    invalid_at=began + timedelta(days=chance.randint(0, 3)) if chance.random() < 0.5 else None,
                    created_at=created,
                    expired_at=learned[version + 1] if version + 1 < len(learned) else None,
                    supersedes=f"f{fact - 1}.1" if fact and chance.random() < 0.3 else None,
                    disputed=chance.random() < 0.2,
                    salience=chance.random() * 3,
                )
            )
    return facts


def some_vectors(facts: list[Fact]) -> Vectors:
    rows = np.random.default_rng(1).normal(size=(len(facts), 16)).astype(np.float32)
    unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def moments() -> Iterator[When]:
    """As of and believed at: on, just before and between what happens."""
    chance = random.Random(2)
    yield When()
    for _ in range(25):
        as_of = START + timedelta(minutes=chance.randrange(7 * 1440), microseconds=chance.randrange(-1, 2))
        believed_at = START + timedelta(days=chance.randrange(10), microseconds=chance.randrange(-1, 1))
        yield chance.choice((When(as_of), When(None, believed_at), When(as_of, believed_at)))


@pytest.mark.parametrize("store", FACT_STORES)
def test_facts_are_found_as_in_memory(store: str, tmp_path: Path, begin: Begin) -> None:
    begin(store)
    facts, embedded = some_facts(120), EmbeddedFacts()
    embedded.append(facts, 0)
    there = open_facts(store, place(tmp_path))
    assert there.versions() == there.facts() == []
    fill_facts(there, facts)
    assert there.versions() == facts
    chance = random.Random(3)
    found = 0
    for when in moments():
        subjects = chance.choice((None, NAMES[:1], NAMES[1:4], ("nobody",), ()))
        predicate = chance.choice((None, "count", "home", "likes"))
        asked = embedded.facts(subjects, predicate, when)
        assert there.facts(subjects, predicate, when) == asked
        assert there.versions(subjects, predicate) == embedded.versions(subjects, predicate)
        for hops in (0, 1, 2):
            names = [*NAMES[:2], "nobody"]
            near = embedded.distances(names, hops, when)
            plain = {name.replace("\0", ""): distance for name, distance in near.items()}
            assert there.distances(names, hops, when) == plain
        found += len(asked)
    assert found > 150


@pytest.mark.parametrize("store", VECTOR_STORES)
def test_vectors_are_found_as_in_memory(store: str, tmp_path: Path, begin: Begin) -> None:
    begin(store)
    facts, embedded = some_facts(120), EmbeddedVectors()
    vectors = some_vectors(facts)
    embedded.add(facts, vectors, 0)
    there = open_vectors(store, place(tmp_path))
    assert there.held() == {}
    assert there.search(vectors[0], 3) == []
    fill_vectors(there, facts, vectors)
    assert there.held() == embedded.held()
    assert list(there.held()) == [fact.version_id for fact in facts]
    chance = random.Random(3)
    for when in moments():
        ids = chance.choice((None, None, {fact.version_id for fact in chance.sample(facts, 40)}, set()))
        for vector, limit in ((vectors[5], 1000), (-vectors[9], 4)):
            asked = embedded.search(vector, limit, when, ids)
            answered = there.search(vector, limit, when, ids)
            assert [one for one, _ in answered] == [one for one, _ in asked]
            assert [score for _, score in answered] == pytest.approx([score for _, score in asked], abs=1e-5)


@pytest.mark.parametrize("store", FACT_STORES)
def test_a_store_is_brought_to_what_the_record_says(store: str, tmp_path: Path, begin: Begin) -> None:
    begin(store)
    facts = some_facts(30)
    there = open_facts(store, place(tmp_path))
    before = [msgspec.structs.replace(fact, expired_at=None) for fact in facts[:40]]
    for wanted in (before, facts, facts, facts[5:], [], facts[:3]):
        fill_facts(there, wanted)
        assert there.versions() == wanted
    # Who comes second with the same rows changes nothing.
    there.append(facts[:3], 0)
    assert there.versions() == facts[:3]


@pytest.mark.parametrize("store", VECTOR_STORES)
def test_vectors_are_brought_to_what_the_record_says(store: str, tmp_path: Path, begin: Begin) -> None:
    begin(store)
    facts = some_facts(30)
    vectors = some_vectors(facts)
    there = open_vectors(store, place(tmp_path))
    before = [msgspec.structs.replace(fact, expired_at=None) for fact in facts[:40]]
    for wanted, rows in ((before, vectors), (facts, vectors), (facts[5:], vectors), ([], vectors), (facts, -vectors)):
        fill_vectors(there, wanted, rows[: len(wanted)])
        embedded = EmbeddedVectors()
        embedded.add(wanted, rows[: len(wanted)], 0)
        assert there.held() == embedded.held()
        assert len(there.search(vectors[0], 999)) == sum(fact.expired_at is None for fact in wanted)


@pytest.mark.parametrize("store", FACT_STORES)
def test_a_life_is_answered_from_the_store(store: str, tmp_path: Path, begin: Begin) -> None:
    begin(store)
    path = tmp_path / "life.json"
    engine = lived(Engram(path, store=store))
    engine.save()
    alone = Engram(path)
    for again in (engine, Engram(path, store=store)):
        assert type(again.fact_store).__module__.endswith(store)
        for one in questions():
            found = again.facts(one.subject, one.predicate, as_of=one.as_of, believed_at=one.believed_at)
            assert {fact.object for fact in found} == one.values, one
        assert again.timeline() == alone.timeline()
        assert again.history("f1") == alone.history("f1")


BOTH: tuple[tuple[str, str], ...] = (
    ("falkordb", "lancedb"),
    ("ladybug", "qdrant"),
    ("postgres", "postgres"),
)


@pytest.mark.parametrize(("store", "vectors"), BOTH)
def test_what_is_forgotten_is_in_no_file(
    store: str,
    vectors: str,
    tmp_path: Path,
    begin: Begin,
    request: pytest.FixtureRequest,
) -> None:
    begin(store)
    begin(vectors)
    memory = Engram(tmp_path / "memory.json", store=store, vectors=vectors)
    memory.tell("My dog Zebulon chews everything. I live in Ghent.", START)
    memory.tell("I moved to Lille yesterday.", START + timedelta(9))
    memory.save()
    found = memory.search("Where do I live now?")
    alone = Engram(tmp_path / "memory.json").search("Where do I live now?")
    assert [item.text for item in found] == [item.text for item in alone]
    assert [item.score for item in found] == pytest.approx([item.score for item in alone])
    assert any(item.kind == "fact" and "Lille" in item.text for item in found)
    other = Engram(tmp_path / "other.json", store=store, vectors=vectors)
    assert (other.facts(), other.search("Where do I live now?")) == ([], [])
    assert memory.forget(subject="zebulon").facts == 2
    # The databases themselves are asked, and the files they keep read; servers are told to tidy theirs.
    there = open_facts(store, memory.place)
    assert {fact.object for fact in there.versions()} == {"Lille"}
    assert open_vectors(vectors, memory.place).held() == {}
    folders = [tmp_path]
    if store in ("falkordb", "postgres"):
        folders.append(tidied(store, request.getfixturevalue(store)))
    assert not [file for folder in folders for file in folder.rglob("*") if file.is_file() and holds(file, b"Zebulon")]
    assert memory.search("Where do I live now?")
    memory.forget(subject="Lille")
    assert there.versions() == []


def holds(file: Path, text: bytes) -> bool:
    return text in file.read_bytes() or text.lower() in file.read_bytes().lower()


def tidied(store: str, folder: Path) -> Path:
    """The folder of what a server keeps, after it has written down what is left (its log of writes holds the past)."""
    if store == "postgres":
        import psycopg

        with psycopg.connect(f"postgresql://postgres@/postgres?host={folder}", autocommit=True) as connection:
            connection.execute("CHECKPOINT")
        return folder / "data" / "base"
    from falkordb import FalkorDB

    server = FalkorDB.from_url(f"unix://{folder}/socket").connection
    server.bgrewriteaof()
    while server.info("persistence")["aof_rewrite_in_progress"] or server.info("persistence")["aof_rewrite_scheduled"]:
        pass
    return folder


READ_ELSEWHERE = """
import sys
from longmemeval.errors import HarnessError
from longmemeval.errors import HarnessError
from longmemeval.memory.engram import Engram

def read():
    try:
        memory = Engram(sys.argv[1], store=sys.argv[2], vectors=sys.argv[3])
        return [one.text for one in [*memory.facts("user", "home"), *memory.search("Where do I live?")]]
    except HarnessError as error:
        return str(error)

print(read(), flush=True)
sys.stdin.readline()
print(read())
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("store", "vectors"), BOTH)
def test_another_process_reads_the_same(store: str, vectors: str, tmp_path: Path, begin: Begin) -> None:
    begin(store)
    begin(vectors)
    path = tmp_path / "memory.json"
    memory = Engram(path, store=store, vectors=vectors)
    memory.tell("I live in Ghent.", START)
    memory.save()
    mine = [one.text for one in memory.facts("user", "home")]
    mine += [one.text for one in memory.search("Where do I live?")]
    assert mine[0] == "user lives in Ghent"
    command = [sys.executable, "-c", READ_ELSEWHERE, str(path), store, vectors]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        beside = other.stdout.readline().strip()
        assert beside == str(mine) or (store != "postgres" and beside.startswith("Another process has this store open"))
        memory.close()
        assert other.communicate("\n")[0].strip() == str(mine)
    assert [one.text for one in memory.facts("user", "home")] == mine[:1]
    assert memory.near("Ghent") == {"user": 1}


def test_the_schema_of_the_graph_is_the_documented_one(tmp_path: Path, begin: Begin) -> None:
    begin("falkordb")
    from falkordb import FalkorDB

    memory = Engram(tmp_path / "memory.json", store="falkordb")
    turns = ("I live in Ghent.", "My sister is called Mia.", "I have three road bikes.")
    memory.add(Session("monday", START, "", tuple(Turn("user", text) for text in turns)))
    memory.tell("I moved to Lille yesterday.", START + timedelta(9), session_id="later")
    memory.save()
    graph = FalkorDB.from_url(os.environ["LONGMEMEVAL_FALKORDB_URL"]).select_graph(memory.place.name)

    def asked(query: str) -> list[list[object]]:
        return graph.query(query).result_set

    documented = re.findall(r"```cypher\n(.*?)```", (ROOT / "docs" / "engram.md").read_text(), re.DOTALL)
    then, chain = (asked(query) for query in documented)
    assert then == [["user", "home", "Ghent"]]
    assert chain == [["later:0", "user lives in Lille (2024-01-09)", "user lives in Ghent"]]
    assert asked(
        "MATCH (:Session {id: 'monday'})-[:HAS_TURN]->(t:Turn)-[:NEXT]->(n:Turn) RETURN t.id, n.id ORDER BY t.id"
    ) == [
        ["monday:0", "monday:1"],
        ["monday:1", "monday:2"],
    ]
    assert asked("MATCH (:Turn {id: 'monday:1'})-[:MENTIONS]->(e:Entity) RETURN e.name ORDER BY e.name") == [
        ["Mia"],
        ["user"],
    ]
    soft = "MATCH (f:Fact {object: 'Ghent'}) RETURN f.id, f.vt_end, f.tt_end IS NULL ORDER BY f.id"
    assert asked(soft) == [["f1.1", None, False], ["f1.2", "2024-01-09T00:00:00.000000", True]]


def test_what_is_missing_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match="without a path"):
        Engram(store="ladybug")
    monkeypatch.setitem(sys.modules, "longmemeval.memory.engram.stores.ladybug", None)
    with pytest.raises(HarnessError, match=r"install .*\[ladybug\]'"):
        Engram(tmp_path / "memory.json", store="ladybug")


@pytest.mark.parametrize("store", ["falkordb", "postgres"])
def test_a_server_that_is_not_there_is_named_without_its_password(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed(store)
    scheme = "falkor" if store == "falkordb" else "postgresql"
    monkeypatch.setenv(f"LONGMEMEVAL_{store.upper()}_URL", f"{scheme}://ann:correct-horse@localhost:1/x")
    with pytest.raises(HarnessError, match="cannot be reached") as raised:
        Engram(tmp_path / "memory.json", store=store)
    assert f"LONGMEMEVAL_{store.upper()}_URL" in str(raised.value)
    assert "correct-horse" not in str(raised.value)
