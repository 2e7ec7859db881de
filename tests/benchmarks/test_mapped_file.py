"""A file of records costs the memory of a part of it, and is split where its records end."""

import json
import re
from itertools import takewhile
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from longmemeval.benchmarks import data_files as mapped_file
from longmemeval.benchmarks.data_files import MappedFile, note_read
from longmemeval.core.files import sha256_bytes

SMAPS = Path("/proc/self/smaps")


def resident(path: Path) -> int:
    """Bytes of a mapped file that are in this process."""
    lines = iter(SMAPS.read_text().splitlines())
    for line in lines:
        if line.endswith(str(path)):
            told = takewhile(lambda one: re.match(r"\w+:", one), lines)
            return next(int(one.split()[1]) * 1024 for one in told if one.startswith("Rss:"))
    return 0


@pytest.mark.slow
@pytest.mark.skipif(not SMAPS.exists(), reason="needs /proc/self/smaps")
@pytest.mark.parametrize("records", [8, 24])
def test_a_file_of_any_size_takes_the_same_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    monkeypatch.setattr(mapped_file, "_RESIDENT_BYTES", 1 << 20)
    path = tmp_path / "large.json"
    path.write_text(json.dumps([{"number": number, "text": "x" * (1 << 20)} for number in range(records)]))
    file, peak = MappedFile(path), 0
    for record in file.records():
        assert len(record) > 1 << 20
        peak = max(peak, resident(path))
    assert file.sha256 == sha256_bytes(path.read_bytes())
    assert 0 < max(peak, resident(path)) < 7 << 20  # The system maps up to 2 MB at once.


@pytest.mark.parametrize(
    "text", ["[]", " [ ] \n", '[{"a": "}, {"}]', '\n[ {"a":[1]} ,\t{"b":"],"}\r\n, 3 ] \n', "\ufeff[1,2]"]
)
def test_records_are_those_of_the_array(tmp_path: Path, text: str) -> None:
    path = tmp_path / "records.json"
    path.write_text(text)
    expected = json.loads(text.removeprefix("\ufeff"))
    assert [msgspec.json.decode(record) for record in MappedFile(path).records()] == expected


@pytest.mark.parametrize("text", ["[", "[1", "[1,", "[1,]", "[1 2]", "[1] 2", "{}", "1", "[,]", '[{"a": }]'])
def test_what_is_no_array_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "records.json"
    path.write_text(text)
    with pytest.raises(msgspec.DecodeError):
        list(MappedFile(path).records())


class Read(msgspec.Struct, frozen=True):
    """A record that tells the file how much of it was read, and how much of the file is in memory by then."""

    number: int
    text: msgspec.Raw
    path: str
    counted: ClassVar[list[int]] = []
    peak: ClassVar[list[int]] = []

    def __post_init__(self) -> None:
        self.counted.append(self.number)
        if self.path:
            self.peak.append(resident(Path(self.path)))
        note_read(memoryview(self.text).nbytes)


RECORDS = msgspec.json.Decoder(list[Read])


@pytest.mark.parametrize("indent", [None, 2])
def test_each_record_is_decoded_once(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "records.json"
    data = [
        {"number": number, "text": '}, {"number": 7}] ' * number, "other": [{}], "path": ""} for number in range(20)
    ]
    path.write_text(json.dumps(data, indent=indent) + "\n")
    Read.counted.clear()
    read = MappedFile(path).decode(RECORDS)
    assert [(record.number, msgspec.json.decode(record.text)) for record in read] == [
        (record["number"], record["text"]) for record in data
    ]
    assert Read.counted == list(range(20))


@pytest.mark.thorough
@pytest.mark.skipif(not SMAPS.exists(), reason="needs /proc/self/smaps")
def test_memory_is_released_in_the_middle_of_the_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_file, "_RESIDENT_BYTES", 1 << 20)
    path = tmp_path / "large.json"
    records = [{"number": number, "text": "x" * (1 << 20), "path": str(path)} for number in range(24)]
    path.write_text(json.dumps(records))
    Read.peak.clear()
    MappedFile(path).decode(RECORDS)
    assert 0 < max(Read.peak) < 7 << 20
    # The control: without a file that is told, all of it stays.
    Read.peak.clear()
    file = MappedFile(path)
    RECORDS.decode(file.json)
    assert max(Read.peak) > 20 << 20


@pytest.mark.parametrize("text", ['[{"number": 1, "text": 2}, {"number": "1"}]', '[{"number": 1, "text": 2} 3]', "[1]"])
def test_what_is_no_such_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "records.json"
    path.write_text(text)
    with pytest.raises(msgspec.DecodeError):
        MappedFile(path).decode(RECORDS)
    note_read(1)  # Of no file any more.
