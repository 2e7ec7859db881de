"""Journals: whole lines stay, an unfinished last one goes, one writer at a time, and a full disk is told."""

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from longmemeval.core.files import sha256_file
from longmemeval.core.journal import Journal, StoredJournal, read_journal
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.records import DatasetIdentity as Entry
from tests.support import clean_environment

ONE, TWO, LONG = Entry("one", "1"), Entry("two", "2"), Entry("long", "x" * 5000)


def written(path: Path, *entries: Entry) -> Path:
    with Journal(path, Entry) as journal:
        for entry in entries:
            journal.append(entry)
    return path


def test_absent_journal_is_empty(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "none.jsonl", Entry) == []


def test_records_are_there_the_moment_they_are_appended(tmp_path: Path) -> None:
    with Journal(tmp_path / "new" / "j.jsonl", Entry) as journal:
        journal.append(ONE)
        assert read_journal(journal.path, Entry) == [ONE]
        journal.append(LONG)
        assert journal.records() == [ONE, LONG]


def test_records_that_are_json_already_are_like_others(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl", Entry) as journal:
        journal.append(ONE)
        journal.append_encoded(msgspec.json.encode(TWO))
        assert journal.records() == read_journal(journal.path, Entry) == [ONE, TWO]
        assert journal.path.read_bytes() == written(tmp_path / "plain.jsonl", ONE, TWO).read_bytes()
        assert journal.sha256() == sha256_file(journal.path)


def test_hash_is_that_of_the_file_also_after_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C can come when a line is written and not yet taken in."""

    def interrupted(self: StoredJournal[Entry], line: bytes, record: Entry) -> None:
        raise KeyboardInterrupt

    with Journal(tmp_path / "j.jsonl", Entry) as journal:
        journal.append(ONE)
        assert journal.sha256() == sha256_file(journal.path)
        monkeypatch.setattr(StoredJournal, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            journal.append(TWO)
        assert journal.sha256() == sha256_file(journal.path)
        assert read_journal(journal.path, Entry) == [ONE, TWO]


@pytest.mark.parametrize("cut", [1, 5, 17])
def test_unfinished_last_line_is_passed_over_and_then_dropped(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "j.jsonl", ONE, TWO)
    path.write_bytes(path.read_bytes()[:-cut])
    assert read_journal(path, Entry) == [ONE]
    written(path, LONG)
    assert read_journal(path, Entry) == [ONE, LONG]


def test_unfinished_line_may_end_within_a_character(tmp_path: Path) -> None:
    path = written(tmp_path / "j.jsonl", ONE)
    path.write_bytes(path.read_bytes() + '{"name": "é'.encode()[:-1])
    written(path, TWO)
    assert read_journal(path, Entry) == [ONE, TWO]


@pytest.mark.parametrize("spoilt", [b"{}\n", b"\n", b"\xff\xfe\n", b'{"name": "\xff", "sha256": ""}\n', b"not json\n"])
def test_damaged_line_is_named(tmp_path: Path, spoilt: bytes) -> None:
    path = written(tmp_path / "j.jsonl", ONE, TWO)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + spoilt + lines[1])
    with pytest.raises(IntegrityError, match=r"j\.jsonl, line 2"):
        read_journal(path, Entry)


def test_opening_an_intact_journal_does_not_touch_it(tmp_path: Path) -> None:
    path = written(tmp_path / "j.jsonl", ONE)
    before = path.stat().st_mtime_ns
    written(path)
    assert path.stat().st_mtime_ns == before


def test_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path, Entry) as journal:
        with pytest.raises(HarnessError, match=rf"Another call in this process \({os.getpid()}\) is writing"):
            Journal(path, Entry)
        journal.append(ONE)
    assert read_journal(written(path, TWO), Entry) == [ONE, TWO]


def test_another_thread_of_this_process_waits_for_its_turn(tmp_path: Path) -> None:
    path, begins = tmp_path / "j.jsonl", threading.Event()

    def second() -> None:
        begins.set()
        written(path, TWO)

    with ThreadPoolExecutor(1) as threads:
        with Journal(path, Entry) as journal:
            waits = threads.submit(second)
            begins.wait()
            journal.append(ONE)
        waits.result()
    assert read_journal(path, Entry) == [ONE, TWO]


def test_a_thread_with_a_journal_open_is_refused_another_thread_s(tmp_path: Path) -> None:
    path, is_open, end = tmp_path / "j.jsonl", threading.Event(), threading.Event()

    def first() -> None:
        with Journal(path, Entry):
            is_open.set()
            end.wait()

    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(first)
        is_open.wait()
        try:
            with Journal(tmp_path / "mine.jsonl", Entry), pytest.raises(HarnessError, match="Another call in this pro"):
                Journal(path, Entry)
        finally:
            end.set()
        waits.result()


def test_the_other_process_is_named_with_its_command(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    code = (
        "import sys; from pathlib import Path\n"
        "from longmemeval.core.journal import Journal\n"
        "from longmemeval.records import DatasetIdentity as Entry\n"
        "with Journal(Path(sys.argv[1]), Entry):\n    print('open', flush=True)\n    sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, str(path), "--dataset", "d"]
    with subprocess.Popen(command, env=clean_environment(), stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(HarnessError, match=rf"Process {other.pid} \(-c .*--dataset d\) is writing to this journal"):
            Journal(path, Entry)
        other.communicate("")


def test_writer_that_died_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    code = (
        "import os, sys; from pathlib import Path\n"
        "from longmemeval.core.journal import Journal\n"
        "from longmemeval.records import DatasetIdentity as Entry\n"
        "Journal(Path(sys.argv[1]), Entry).append(Entry('one', '1')); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], env=clean_environment(), check=False, timeout=200)
    assert done.returncode == -signal.SIGKILL
    assert read_journal(written(path, TWO), Entry) == [ONE, TWO]


def test_full_disk_is_told_and_leaves_whole_lines_only(tmp_path: Path) -> None:
    path = written(tmp_path / "j.jsonl", ONE)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 2000, limits[1]))
    try:
        with Journal(path, Entry) as journal:
            with pytest.raises(HarnessError, match="The record cannot be written") as caught:
                journal.append(LONG)
            journal.append(TWO)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.where == str(path)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EFBIG
    assert path.read_bytes().count(b"\n") == 2
    assert read_journal(path, Entry) == [ONE, TWO]


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere.jsonl"))


def replaced(path: Path) -> None:
    moved(path)
    path.write_bytes(b"")


def moved_with_its_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))


@pytest.mark.parametrize("happens", [moved, Path.unlink, replaced, moved_with_its_folder])
def test_a_journal_that_is_taken_away_is_noticed_at_once(tmp_path: Path, happens: Callable[[Path], None]) -> None:
    with Journal(tmp_path / "run" / "j.jsonl", Entry) as journal:
        journal.append(ONE)
        happens(journal.path)
        with pytest.raises(IntegrityError, match=r"j\.jsonl was moved, deleted or replaced.*Put it back"):
            journal.append(TWO)
        with pytest.raises(IntegrityError, match="moved, deleted or replaced"):
            journal.records()


def test_what_was_moved_away_has_every_record(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl", Entry) as journal:
        journal.append(ONE)
        moved(journal.path)
        with pytest.raises(IntegrityError):
            journal.append(TWO)
    (tmp_path / "elsewhere.jsonl").rename(journal.path)
    assert read_journal(journal.path, Entry) == [ONE, TWO]
