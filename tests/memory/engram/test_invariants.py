"""What holds of the engine whatever is added, contradicted, retracted, forgotten, stored and read again."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longmemeval.memory.engram import Engram
from longmemeval.memory.engram.parameters import definition, slot_of
from longmemeval.memory.engram.records import Claim, Episode, Fact, facts_at
from longmemeval.memory.engram.timeline import Ledger
from longmemeval.records import Session, Turn

START = datetime(2024, 1, 1)
SUBJECTS, SECRET = ("Ann", "Ben"), "Zebulon"
PREDICATES = ("home", "likes", "dislikes", "owns", "count:bikes")
VALUES = ("Rome", "Rome, Italy", "Bern", "tea", "3", "4", "")

Said = tuple[str, str, str, str, int, int, str, int]
"""Subject, predicate, value, kind, day said, days before that it began, force, days it lasted (0: not said)."""


def read(episode: Episode, before: Episode | None, known: Ledger) -> Iterable[Claim]:
    """Claims as `text` spells them."""
    subject, predicate, value, kind, ago, force, lasted = episode.text.split("|")
    began = episode.event_at - timedelta(int(ago))
    yield Claim(
        kind="end" if kind == "end" else "retract" if kind == "retract" else "assert",
        subject=subject,
        predicate=predicate,
        object=value,
        text=f"{subject} {predicate} {value}",
        episode_ids=(episode.episode_id,),
        valid_at=began,
        until=began + timedelta(int(lasted)) if lasted != "0" else None,
        said_at=episode.event_at,
        force="correction" if force == "correction" else "change" if force == "change" else "plain",
    )


said = st.tuples(
    st.sampled_from((*SUBJECTS, SECRET)),
    st.sampled_from(PREDICATES),
    st.sampled_from(VALUES),
    st.sampled_from(("assert", "assert", "assert", "end", "retract")),
    st.integers(0, 12),
    st.integers(0, 6),
    st.sampled_from(("plain", "plain", "change", "correction")),
    st.sampled_from((0, 0, 0, 2, 5)),
)
sequences = st.lists(said, min_size=1, max_size=14)


def add(engine: Engram, number: int, one: Said) -> None:
    subject, predicate, value, kind, day, ago, force, lasted = one
    value = value or ("" if kind != "assert" else "Rome")
    text = "|".join((subject, predicate, value, kind, str(ago), force, str(lasted)))
    date = START + timedelta(day)
    engine.add(Session(f"s{number}", date, "", (Turn("user", text),)))


def check(versions: list[Fact], told: int) -> None:
    places = {fact.version_id: place for place, fact in enumerate(versions)}
    assert len(places) == len(versions)
    moments = sorted({fact.created_at for fact in versions} | {fact.valid_at for fact in versions})
    for fact in versions:
        assert fact.episode_ids
        assert len(fact.episode_ids) <= told
        if fact.supersedes:
            assert places[fact.supersedes] < places[fact.version_id]
        assert fact.invalid_at is None or fact.invalid_at >= fact.valid_at
        assert fact.expired_at is None or fact.expired_at >= fact.created_at
    for believed_at in (*moments, None):
        for as_of in moments:
            current: dict[tuple[str, str, str], str] = {}
            for fact in facts_at(versions, as_of, believed_at):
                slot = slot_of(fact.subject, fact.predicate, fact.object)
                exclusive = definition(fact.predicate).functional or definition(fact.predicate).shares
                if exclusive and not fact.disputed:
                    assert slot not in current, (current[slot], fact)
                    current[slot] = fact.version_id


def keeps_every_invariant(steps: list[Said]) -> None:
    engine, history = Engram(extractor=read), list[Fact]()
    for number, one in enumerate(steps):
        add(engine, number, one)
        versions = engine.ledger.store.versions()
        # Nothing is deleted or changed but for the moment it stopped to be believed.
        for before, now in zip(history, versions, strict=False):
            assert (before.version_id, before.text, before.valid_at, before.invalid_at) == (
                now.version_id,
                now.text,
                now.valid_at,
                now.invalid_at,
            )
            assert before.expired_at in (None, now.expired_at)
        assert len(versions) >= len(history)
        history = versions
        check(versions, len(engine.episodes))
    again = Engram(extractor=read)
    for number, one in enumerate(steps):
        add(again, number, one)
    assert again.persist() == engine.persist()
    with TemporaryDirectory() as folder:
        forgets_and_goes_on(engine, Path(folder) / "memory.json", steps)


def forgets_and_goes_on(engine: Engram, path: Path, steps: list[Said]) -> None:
    path.write_bytes(engine.persist())
    stored = Engram(path, extractor=read)
    assert stored.persist() == engine.persist()
    add(stored, 100, steps[0])
    add(engine, 100, steps[0])
    assert stored.persist() == engine.persist()
    stored.forget(subject=SECRET)
    assert all(SECRET.encode() not in file.read_bytes() for file in path.parent.iterdir())
    check(stored.ledger.store.versions(), len(stored.episodes))
    replayed = Engram(extractor=read)
    for episode in stored.episodes:
        turn = Turn("user", episode.text)
        replayed.add(Session(episode.session_id, episode.event_at, "", (turn,)), learned_at=episode.ingested_at)
    assert replayed.persist() == stored.persist() == Engram(path, extractor=read).persist()


@pytest.mark.slow
@settings(max_examples=25)
@given(sequences)
def test_any_sequence_keeps_every_invariant(steps: list[Said]) -> None:
    keeps_every_invariant(steps)


@pytest.mark.thorough
@settings(max_examples=1000)
@given(sequences)
def test_a_thousand_sequences_keep_every_invariant(steps: list[Said]) -> None:
    keeps_every_invariant(steps)
