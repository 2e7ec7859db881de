"""The engine by itself: add, ask on both axes, store, read again, forget."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from longmemeval.errors import FixtureError, HarnessError
from longmemeval.memory.engram import Engram
from longmemeval.records import Session, Turn
from tests.conftest import real_file

MONDAY = datetime(2024, 3, 4, 9, 0)


def texts(engine: Engram, *, as_of: datetime | None = None, believed_at: datetime | None = None) -> list[str]:
    return [fact.text for fact in engine.facts("user", "home", as_of=as_of, believed_at=believed_at)]


def test_both_axes_of_time() -> None:
    engine = Engram()
    engine.tell("I live in Ghent.", MONDAY)
    engine.tell("I moved to Lille yesterday.", MONDAY + timedelta(10))
    moved = datetime(2024, 3, 13)
    assert texts(engine) == ["user lives in Lille (2024-03-13)"]
    assert texts(engine, as_of=moved - timedelta(1)) == ["user lives in Ghent"]
    # Before the second message nobody knew of the move.
    assert texts(engine, as_of=moved, believed_at=MONDAY + timedelta(9)) == ["user lives in Ghent"]
    assert texts(engine, as_of=MONDAY - timedelta(1)) == []
    assert [fact.object for fact in engine.timeline("user", "lives in")] == ["Ghent", "Lille"]
    assert [fact.invalid_at for fact in engine.history("f1")] == [None, moved]


def test_a_session_that_arrives_late_is_learned_late() -> None:
    engine = Engram()
    engine.tell("I live in Lille.", MONDAY + timedelta(30))
    engine.tell("I live in Ghent.", MONDAY)
    first, late = engine.episodes
    assert late.event_at < first.event_at
    assert late.ingested_at == first.ingested_at
    assert [(fact.object, fact.invalid_at) for fact in engine.timeline("user", "home")] == [
        ("Ghent", MONDAY + timedelta(30)),
        ("Lille", None),
    ]


def test_a_question_and_its_answer_are_read_together() -> None:
    engine = Engram()
    turns = (Turn("assistant", "Lovely! Where do you live?"), Turn("user", "Cork."))
    engine.add(Session("chat", MONDAY, "", turns))
    (fact,) = engine.facts()
    assert (fact.predicate, fact.object, fact.episode_ids) == ("home", "Cork", ("chat:0", "chat:1"))


def test_a_relative_gets_its_name_and_keeps_what_was_known() -> None:
    engine = Engram()
    engine.tell("My sister lives in Oslo.", MONDAY)
    engine.tell("My sister is called Mia.", MONDAY + timedelta(1))
    engine.tell("My sister works at Equinor.", MONDAY + timedelta(2))
    assert {fact.object for fact in engine.facts("Mia")} == {"Oslo", "Equinor"}
    assert {fact.object for fact in engine.facts("user's sister")} == {"Oslo", "Equinor"}


def test_what_is_stored_is_read_again_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    engine = Engram(path)
    engine.tell("I live in Ghent. My cat is called Pim.", MONDAY)
    engine.save()
    again = Engram(path)
    assert again.persist() == engine.persist() == path.read_bytes()
    for one in (engine, again):
        one.tell("I moved to Lille yesterday.", MONDAY + timedelta(10))
    assert again.persist() == engine.persist()
    with pytest.raises(HarnessError, match="no file"):
        Engram().save()
    path.write_text('{"format": 99}')
    with pytest.raises(FixtureError, match="newer"):
        Engram(path)


def test_what_is_forgotten_was_never_said(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    engine = Engram(path)
    engine.tell("My dog Rex chews everything. I live in Ghent.", MONDAY)
    engine.tell("I moved to Lille yesterday.", MONDAY + timedelta(10))
    engine.save()
    gone = engine.forget(subject="rex")
    assert (gone.episode_ids, gone.facts) == (("2024-03-04:0",), 2)
    assert [fact.object for fact in engine.timeline("user")] == ["Lille"]
    assert b"Rex" not in path.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["memory.json"]
    assert engine.forget(session_id="2024-03-14").episode_ids == ("2024-03-14:0",)
    assert engine.facts() == []
    engine.tell("I live in Cork.", MONDAY + timedelta(20))
    assert engine.forget(before=MONDAY + timedelta(21)).facts == 1
    with pytest.raises(HarnessError, match="what to forget"):
        engine.forget()


def test_search_finds_facts_and_messages_as_of_a_day() -> None:
    engine = Engram()
    assert engine.search("Where do I live?") == []
    engine.tell("I live in Ghent. My cat is called Pim.", MONDAY)
    engine.tell("I moved to Lille yesterday.", MONDAY + timedelta(10))
    found = engine.search("Where do I live now?")
    assert "user lives in Lille (2024-03-13) [current]" in [item.text for item in found if item.kind == "fact"]
    assert {item.message_ids for item in found if item.kind == "message"} == {("2024-03-04:0",), ("2024-03-14:0",)}
    early = engine.search("Where do I live now?", as_of=MONDAY + timedelta(3))
    assert [item.text for item in early if item.kind == "fact"][:1] == ["user lives in Ghent"]
    assert all("Lille" not in item.text for item in early)
    engine.forget(subject="Lille")
    assert all("Lille" not in item.text for item in engine.search("Where do I live now?"))
    engine.tell("I live in Cork.", MONDAY + timedelta(20))
    assert any("Cork" in item.text for item in engine.search("Where do I live now?"))


@pytest.mark.slow
def test_a_real_conversation_is_read_whole_with_provenance() -> None:
    from longmemeval.benchmarks.registry import load_dataset

    haystack = next(iter(load_dataset(str(real_file("locomo10.json"))).haystacks()))
    engine = Engram()
    for session in haystack.sessions:
        engine.add(session)
    said = {episode.episode_id: episode for episode in engine.episodes}
    versions = engine.ledger.store.versions()
    assert len(versions) > 40
    assert all(episode in said for fact in versions for episode in fact.episode_ids)
    parade = next(fact for fact in versions if "pride parade (2023-06-26" in fact.text)
    assert said[parade.episode_ids[0]].event_at == datetime(2023, 7, 3, 13, 36)


def test_a_profile_is_what_holds_of_a_person_by_kind() -> None:
    engine = Engram()
    engine.tell("I live in Ghent. I love jazz and pottery. My sister is called Mia.", MONDAY)
    engine.tell("I moved to Lille yesterday. I went to a jazz concert.", MONDAY + timedelta(10))
    assert engine.profile("user").text.splitlines() == [
        "home: Lille (since 2024-03-13)",
        "likes: jazz (since 2024-03-04); pottery (since 2024-03-04)",
        "relative:sister: Mia (since 2024-03-04)",
        "event: went to a jazz concert (2024-03-14)",
    ]
    before = engine.profile("user", as_of=MONDAY + timedelta(1))
    assert before.traits[0].text == "Ghent (since 2024-03-04)"
    assert before.traits[0].episode_ids == ("2024-03-04:0",)
    assert [one.subject for one in engine.profiles()] == ["user"]
    assert engine.profile("Nobody").traits == ()
    assert engine.profiles("Nobody") == []


def test_a_profile_shows_what_is_disputed_and_goes_with_its_subject() -> None:
    engine = Engram()
    engine.add(Session("s", MONDAY, "", (Turn("user", "I live in Ghent."), Turn("user", "I live in Lille."))))
    assert engine.profile("user").text == "home: Ghent (since 2024-03-04); Lille (disputed, since 2024-03-04)"
    engine.forget(session_id="s")
    assert engine.profiles() == []
