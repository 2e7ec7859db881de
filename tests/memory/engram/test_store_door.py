"""Stores of other packages and of the user's own module are used by name like the built-in ones."""

import json
import os
import sys
from pathlib import Path

import pytest

from longmemeval.errors import HarnessError
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.memory.engram import Engram
from longmemeval.memory.engram.stores.kinds import STORES, stores_of_side
from longmemeval.memory.engram.stores.opening import namespace, open_facts, open_vectors
from tests.cli.test_plugins import install
from tests.memory.engram.test_life import lived, questions
from tests.support import ROOT, longmemeval

KEPT = '''
from longmemeval.memory.engram.stores.embedded import EmbeddedFacts, EmbeddedVectors

class Facts(EmbeddedFacts):
    """Facts, and a file that says that some were added."""

    is_remote, price = True, "a cent for each question"

    def __init__(self, place):
        place.folder.mkdir(parents=True, exist_ok=True)
        self.mark = place.folder / f"{place.name}.filled"
        super().__init__()

    def append(self, facts, first):
        self.mark.touch()
        super().append(facts, first)

class Vectors(EmbeddedVectors):
    def __init__(self, place):
        super().__init__()
'''
NEEDY = "def opens(place):\n    import a_client_nobody_has\n"
NEEDY += "from longmemeval.memory.engram.stores.kinds import StoreKind\nKIND = StoreKind(facts=opens)\n"


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `own_stores.py`, forgotten afterwards."""
    (tmp_path / "own_stores.py").write_text(KEPT)
    (tmp_path / "needy_store.py").write_text(NEEDY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(STORES, "_loaded", dict(STORES._loaded))
    for name in ("own_stores", "needy_store"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


@pytest.mark.slow
def test_a_life_is_answered_from_a_store_of_ones_own(own_module: Path) -> None:
    usual = lived(Engram(own_module / "usual.json"))
    own = lived(Engram(own_module / "own.json", store="own_stores:Facts", vectors="own_stores:Vectors"))
    for one in questions():
        found, there = (
            engine.facts(one.subject, one.predicate, as_of=one.as_of, believed_at=one.believed_at)
            for engine in (usual, own)
        )
        assert {fact.object for fact in there} == one.values
        assert there == found
    assert type(own.fact_store).__name__ == "Facts"
    assert own.search("Where does my sister live?") == usual.search("Where does my sister live?") != []
    assert len(list(own_module.glob("own.json.stores/*.filled"))) == 1
    with pytest.raises(HarnessError, match="without a path cannot have a database"):
        Engram(store="own_stores:Facts")


def test_a_store_says_itself_where_it_is_and_what_it_costs(own_module: Path) -> None:
    kind = STORES.get("own_stores:Facts")
    assert (kind.is_remote, kind.price, kind.vectors) == (True, "a cent for each question", None)
    assert kind.remark == "facts; on a server; a cent for each question"
    assert [name for name in STORES.built_in if STORES.get(name).is_remote] == ["falkordb", "postgres"]
    assert stores_of_side("facts") == ["embedded", "falkordb", "ladybug", "postgres"]
    assert stores_of_side("vectors") == ["embedded", "postgres", "qdrant", "lancedb"]


def test_one_history_has_one_open_store_and_an_embedded_one_is_always_new(own_module: Path) -> None:
    place = namespace("a", "a", own_module)
    held = open_facts("own_stores:Facts", place)
    assert open_facts("own_stores:Facts", place) is held
    assert open_facts("embedded", place) is not open_facts("embedded", place)


def test_what_is_wrong_with_a_store_is_told(own_module: Path) -> None:
    place = namespace("a", "a", own_module)
    with pytest.raises(HarnessError, match="Did you mean 'postgres'"):
        open_facts("posgres", place)
    with pytest.raises(
        HarnessError, match=r"'qdrant' does not keep facts. Valid: embedded, falkordb, ladybug, postgres"
    ):
        open_facts("qdrant", place)
    with pytest.raises(HarnessError, match="does not keep vectors"):
        open_vectors("own_stores:Facts", place)
    with pytest.raises(HarnessError, match="Install a_client_nobody_has"):
        open_facts("needy_store:KIND", place)
    for store in ("posgres", "qdrant", "own_stores:Vectors", "nowhere:Facts"):
        with pytest.raises(HarnessError, match=f"'engram-lean' cannot have store = '{store}'"):
            resolve_configuration("engram-lean", [f"store={store}"])


@pytest.mark.slow
def test_a_store_of_another_package_is_registered_by_one_line(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    install(site, "kept_stores", KEPT, "[longmemeval.stores]\nkept = kept_stores:Facts\n")
    path = f"{site}{os.pathsep}{ROOT}"
    longmemeval("prepare", "-d", "sample", "--limit", "1", "-m", "engram-lean", cwd=tmp_path, PYTHONPATH=path)
    command = ("run", "-d", "sample", "--limit", "1", "-m", "engram-lean", "--model", "offline/extractive")
    for run_id, words in (("usual", ()), ("kept", ("--set", "store=kept"))):
        longmemeval(*command, *words, "--run-id", run_id, cwd=tmp_path, PYTHONPATH=path)
    usual, kept = (
        json.loads((tmp_path / f"results/{run_id}/answers.jsonl").read_text()) for run_id in ("usual", "kept")
    )
    assert (usual["hypothesis"], usual["recall_ids"]) == (kept["hypothesis"], kept["recall_ids"])
    assert len(list(tmp_path.glob("memory-stores/*.filled"))) == 1
    shown = " ".join(longmemeval("plugins", cwd=tmp_path, PYTHONPATH=path, COLUMNS="200").stdout.split())
    assert "longmemeval.stores kept kept_stores 0.3 facts; on a server; a cent for each question" in shown
