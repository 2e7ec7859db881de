"""Cues spliced into real and made-up conversations: dates, evidence, oddities, and what is refused."""

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from longmemeval.benchmarks.catalogue import benchmark_of, catalogue_entry
from longmemeval.benchmarks.download import is_intact
from longmemeval.benchmarks.locomo_plus.loader import (
    LocomoPlusDataset,
    LocomoPlusQuirks,
    date_text,
    days_of,
    lines_of,
    locomo_plus_quirks,
)
from longmemeval.benchmarks.locomo_plus.protocol import PROMPT_FILE, TASK_FILE
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.cli.verbs.datasets import app
from longmemeval.errors import DataError
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.benchmarks.longmemeval.test_loader import write
from tests.conftest import SHARED_DATA, real_file


def make_item(**fields: object) -> dict[str, Any]:
    return {
        "relation_type": "causal",
        "cue_dialogue": "A: I sold my car.\nB: Good for you.",
        "trigger_query": "A: The bus was late again.",
        "time_gap": "two weeks later",
    } | fields


def make_data(folder: Path, *items: dict[str, Any], conversations: int = 2) -> Path:
    write(folder / "locomo10.json", *(make_conversation(f"conv-{number}") for number in range(conversations)))
    return write(folder / "plus.json", *items)


@pytest.fixture(scope="module")
def real() -> LocomoPlusDataset:
    real_file("locomo10.json")
    return LocomoPlusDataset(real_file("locomo_plus.json"), "locomo-plus")


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("two weeks later", 14),
        ("about one month later", 30),
        ("around six weeks later", 42),
        ("a year after", 365),
        ("several months later", None),
        ("a couple of months later", None),
        ("around one week after the birth", 7),
        ("An 11 weeks", 77),
    ],
)
def test_gaps_are_read_as_officially(text: str, days: int | None) -> None:
    assert days_of(text) == days


@pytest.mark.slow
def test_dates_are_written_as_the_conversations_write_them(real: LocomoPlusDataset) -> None:
    for haystack in real.haystacks():
        assert all(session.date_text == date_text(session.date) for session in haystack.sessions)


def test_lines_without_speaker_are_left_out() -> None:
    assert lines_of(" A: Hello: you\nno one\nB:there ") == [("A", "Hello: you"), ("B", "there")]


def test_a_cue_becomes_a_session_of_its_own(tmp_path: Path) -> None:
    dataset = load_dataset(make_data(tmp_path, make_item(), make_item(), make_item(time_gap="a few weeks later")))
    assert isinstance(dataset, LocomoPlusDataset)
    first, second, third = dataset.questions()
    assert [first.haystack_id, second.haystack_id, third.haystack_id] == [
        "conv-0_plus_0",
        "conv-1_plus_1",
        "conv-0_plus_2",
    ]
    haystack = dataset.haystack("conv-0_plus_0")
    *_, last = (session for session in haystack.sessions if session.session_id != "session_cue")
    (cue,) = (session for session in haystack.sessions if session.session_id == "session_cue")
    assert ((first.date - last.date).days, (first.date - cue.date).days) == (7, 14)
    assert [(turn.role, turn.speaker, turn.content) for turn in cue.turns] == [
        ("user", "Ann", "I sold my car."),
        ("assistant", "Bo", "Good for you."),
    ]
    assert first.text == "The bus was late again."
    gold = dataset.gold(first.question_id)
    assert gold.evidence_turns == ("session_cue:0", "session_cue:1")
    assert gold.evidence_texts == ("Ann\N{FULLWIDTH COLON}I sold my car.", "Bo\N{FULLWIDTH COLON}Good for you.")
    # Nothing says how long ago: officially that is no time at all.
    assert dataset.haystack("conv-0_plus_2").sessions[-1].date == third.date
    assert dataset.gold(third.question_id).facets == {"gap_days": 0}


def test_the_real_file(real: LocomoPlusDataset) -> None:
    assert len(real) == 401
    shares = Counter(question.haystack_id.partition("_")[0] for question in real.questions())
    assert (len(shares), shares["conv-26"], set((shares - Counter({"conv-26": 1})).values())) == (10, 41, {40})
    golds = [real.gold(question.question_id) for question in real.questions()]
    assert sum(len(gold.evidence_turns) for gold in golds) == 357 * 2 + 44
    assert {benchmark_of(real).types.ability_of(gold) for gold in golds} == {"inference"}
    assert locomo_plus_quirks(real) == LocomoPlusQuirks(
        cues_of_one_line=44,
        repeated_cues=7,
        repeated_triggers=0,
        gaps_without_number=15,
        cues_before_the_first_session=28,
        cues_after_the_last_session=15,
        cues_at_the_time_of_a_session=18,
        lines_without_speaker=0,
        items_beyond_ascii=239,
        gap_texts=50,
    )
    question = next(real.questions())
    assert (question.question_id, question.date) == ("conv-26_plus_0/q", datetime(2023, 10, 29, 9, 55))


def test_nothing_of_the_gold_is_in_what_a_system_sees(real: LocomoPlusDataset) -> None:
    plain = {item.trigger for item in real.items}
    assert {question.text for question in real.questions()} == plain
    assert all(question.appended == "" and question.options == () for question in real.questions())


def test_both_files_are_its_identity(tmp_path: Path) -> None:
    path = make_data(tmp_path, make_item())
    before = LocomoPlusDataset(path)
    hashes = before.sha256, before.content_sha256
    write(tmp_path / "locomo10.json", make_conversation("conv-0"))
    after = LocomoPlusDataset(path)
    assert hashes[0] != after.sha256
    assert hashes[1] == after.content_sha256
    assert LocomoPlusDataset(path, captions=False).name == "plus-without-captions"


def test_without_the_conversations_it_says_what_to_run(tmp_path: Path) -> None:
    path = write(tmp_path / "plus.json", make_item())
    with pytest.raises(DataError) as caught:
        load_dataset(path)
    assert "datasets download locomo-plus" in str(caught.value)


def test_the_catalogue_has_the_hashes_of_the_real_files(tmp_path: Path) -> None:
    entry = catalogue_entry("locomo-plus")
    there = entry.sources(real_file("locomo_plus.json"))
    assert [path.name for path, _ in there] == ["locomo_plus.json", "locomo10.json", PROMPT_FILE, TASK_FILE]
    assert all(is_intact(path, source) for path, source in there[:2])
    # A part of it is not all of it.
    (tmp_path / "locomo_plus.json").symlink_to(SHARED_DATA / "locomo_plus.json")
    listed = json.loads(CliRunner().invoke(app, ["list", "--data-dir", str(tmp_path), "--json"]).stdout)
    assert {one["name"]: one["status"] for one in listed}["locomo-plus"] == "in part"
