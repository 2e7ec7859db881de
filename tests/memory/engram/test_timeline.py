"""The conflict cascade, case by case."""

from datetime import datetime

import pytest

from longmemeval.memory.engram.parameters import canonical, normalised_predicate
from longmemeval.memory.engram.records import Claim, ClaimKind, Fact, Force, facts_at
from longmemeval.memory.engram.timeline import Decide, Ledger, unclear


def day(number: int) -> datetime:
    return datetime(2024, 1, number)


def claim(
    value: str,
    on: int,
    said: int | None = None,
    *,
    predicate: str = "home",
    kind: ClaimKind = "assert",
    force: Force = "plain",
    until: int | None = None,
) -> Claim:
    return Claim(
        kind=kind,
        subject="Ann",
        predicate=predicate,
        object=value,
        text=value,
        episode_ids=(f"e{value}{on}",),
        valid_at=day(on),
        until=day(until) if until else None,
        said_at=day(said or on),
        force=force,
    )


def ledger(*claims: Claim, decide: Decide = unclear) -> Ledger:
    """The claims, learned on 1 January and the days after."""
    made = Ledger(decide=decide)
    for number, one in enumerate(claims, start=1):
        made.add(one, day(number))
    return made


def told(made: Ledger, believed_at: int | None = None) -> list[tuple[str, int, int | None]]:
    """Value, first day and day it ended of every fact believed, as it ran in the world."""
    found = facts_at(made.store.versions(), None, day(believed_at) if believed_at else None)
    return sorted((fact.object, fact.valid_at.day, fact.invalid_at.day if fact.invalid_at else None) for fact in found)


def test_another_value_ends_the_earlier_one_and_both_axes_answer() -> None:
    made = ledger(claim("Rome", 1), claim("Bern", 5))
    assert told(made) == [("Bern", 5, None), ("Rome", 1, 5)]
    assert told(made, believed_at=1) == [("Rome", 1, None)]
    old, closed, new = made.store.versions()
    assert (old.version_id, old.expired_at, old.invalid_at) == ("f1.1", day(2), None)
    assert (closed.version_id, closed.created_at, closed.invalid_at) == ("f1.2", day(2), day(5))
    assert (new.supersedes, new.expired_at) == ("f1.2", None)


def test_a_late_arrival_is_closed_history_and_ends_nothing_newer() -> None:
    made = ledger(claim("Rome", 10), claim("Oslo", 4))
    assert told(made) == [("Oslo", 4, 10), ("Rome", 10, None)]
    assert told(ledger(claim("Rome", 2), claim("Bern", 10), claim("Oslo", 4))) == [
        ("Bern", 10, None),
        ("Oslo", 4, 10),
        ("Rome", 2, 4),
    ]


def test_an_elaboration_supersedes_nothing() -> None:
    made = ledger(claim("Rome", 1), claim("Rome, Italy", 5))
    assert told(made) == [("Rome, Italy", 1, None)]
    (fact,) = facts_at(made.store.versions())
    assert fact.episode_ids == ("eRome1", "eRome, Italy5")
    assert (fact.supersedes, fact.salience) == (None, 2.0)


def test_numbers_are_no_elaboration_of_each_other() -> None:
    assert told(ledger(claim("3", 1, predicate="count:bikes"), claim("13", 2, predicate="count:bikes"))) == [
        ("13", 2, None),
        ("3", 1, 2),
    ]


def test_what_nothing_can_order_is_kept_side_by_side_and_marked() -> None:
    made = ledger(claim("Rome", 1), claim("Bern", 1))
    facts = {fact.object: fact for fact in facts_at(made.store.versions(), day(2))}
    assert {value: fact.disputed for value, fact in facts.items()} == {"Rome": False, "Bern": True}
    # A later word of either settles it.
    made.add(claim("Bern", 6), day(6))
    assert told(made) == [("Bern", 1, 6), ("Bern", 6, None), ("Rome", 1, 6)]
    (now,) = facts_at(made.store.versions(), day(7))
    assert (now.object, now.disputed) == ("Bern", False)


def test_words_of_change_or_somebody_who_can_tell_settle_it_at_once() -> None:
    assert told(ledger(claim("Rome", 1), claim("Bern", 1, force="change"))) == [("Bern", 1, None), ("Rome", 1, 1)]

    made = ledger(claim("Rome", 1), claim("Bern", 1), decide=lambda older, newer: "update")
    assert told(made) == [("Bern", 1, None), ("Rome", 1, 1)]
    both = ledger(claim("Rome", 1), claim("Bern", 1), decide=lambda older, newer: "both")
    assert [(fact.object, fact.disputed) for fact in facts_at(both.store.versions(), day(2))] == [
        ("Rome", False),
        ("Bern", False),
    ]
    both.add(claim("Oslo", 5), day(5))
    assert told(both) == [("Bern", 1, 5), ("Oslo", 5, None), ("Rome", 1, 5)]
    same = ledger(claim("NYC", 1), claim("New York", 1), decide=lambda older, newer: "same")
    assert told(same) == [("New York", 1, None)]


def test_a_correction_makes_void_what_it_finds_in_its_way() -> None:
    made = ledger(claim("Rome", 5), claim("Bern", 2, 8, force="correction"))
    assert told(made) == [("Bern", 2, None), ("Rome", 5, 5)]
    assert told(made, believed_at=1) == [("Rome", 5, None)]


def test_a_retraction_restores_what_the_mistake_had_ended() -> None:
    made = ledger(claim("Rome", 1), claim("Bern", 5), claim("Bern", 9, kind="retract"))
    assert told(made) == [("Rome", 1, None)]
    assert told(made, believed_at=2) == [("Bern", 5, None), ("Rome", 1, 5)]
    assert [fact.object for fact in made.store.versions()] == ["Rome", "Rome", "Bern", "Rome"]


def test_what_ends_is_over_until_it_is_said_again() -> None:
    made = ledger(claim("Rome", 1), claim("Rome", 4, kind="end"), claim("Rome", 8))
    assert told(made) == [("Rome", 1, 4), ("Rome", 8, None)]
    assert told(ledger(claim("Rome", 1), claim("", 4, kind="end"))) == [("Rome", 1, 4)]
    assert told(ledger(claim("Rome", 1, until=3), claim("Bern", 2))) == [("Bern", 2, None), ("Rome", 1, 2)]


def test_liking_and_disliking_one_thing_exclude_each_other() -> None:
    made = ledger(
        claim("tea", 1, predicate="likes"),
        claim("rum", 2, predicate="likes"),
        claim("tea", 5, predicate="dislikes"),
    )
    now = {(fact.predicate, fact.object) for fact in facts_at(made.store.versions(), day(6))}
    assert now == {("likes", "rum"), ("dislikes", "tea")}


def test_the_same_attribute_under_another_name() -> None:
    assert canonical("lives in") == canonical("livesIn") == "home"
    assert canonical("favorite:color") == "favourite:color"
    assert canonical("trade") == "trade"
    assert canonical("fluent in") == "fluent in"
    assert normalised_predicate("Lives In: the north") == normalised_predicate("home") == "home"
    assert normalised_predicate("count:Bikes") == "count:bikes"
    assert normalised_predicate("count") is None
    assert normalised_predicate("plays  Instrument: at night") == "plays instrument at night"
    assert normalised_predicate(" : !") is None


def test_a_claim_says_where_it_is_from() -> None:
    with pytest.raises(ValueError, match="episode"):
        Ledger().add(Claim("assert", "Ann", "home", "Rome", "Rome", (), day(1)), day(1))


def test_versions_are_closed_once_and_changed_never() -> None:
    made = ledger(claim("Rome", 1))
    fact: Fact = made.store.versions()[0]
    with pytest.raises(ValueError, match="never changed"):
        made.store.expire([claim_as_fact(fact)])


def claim_as_fact(fact: Fact) -> Fact:
    return Fact(
        fact.version_id,
        fact.subject,
        fact.predicate,
        "Bern",
        fact.text,
        fact.episode_ids,
        fact.valid_at,
        None,
        fact.created_at,
        day(9),
    )


def test_the_graph_finds_what_is_connected() -> None:
    made = ledger(claim("Mia", 1, predicate="relative:sister"))
    made.add(Claim("assert", "Mia", "home", "Oslo", "Mia lives in Oslo", ("e9",), day(2)), day(2))
    assert made.store.distances(["Ann"], 2) == {"Ann": 0, "Mia": 1, "Oslo": 2}
    assert made.store.distances(["Ann"], 1) == {"Ann": 0, "Mia": 1}
    assert made.aliases_of("ann's sister") == ["Mia", "Ann's sister"]
    assert [(edge.source, edge.predicate, edge.target) for edge in made.relations()] == [
        ("Ann", "relative:sister", "Mia")
    ]


def test_another_date_of_an_older_value_leaves_what_came_after() -> None:
    """ "Actually, it was Rome from the 2nd", when it is Bern by now."""
    moves = [claim("Rome", 5, force="change"), claim("Bern", 10, force="change")]
    for date in (2, 7):
        made = ledger(*moves, claim("Rome", date, said=12, force="correction"))
        assert told(made) == [("Bern", 10, None), ("Rome", date, 10)]
        # What was believed before the correction stays on record.
        assert told(made, believed_at=2) == [("Bern", 10, None), ("Rome", 5, 10)]


def test_of_two_stays_the_nearest_is_corrected_and_a_second_correction_counts() -> None:
    stays = [claim("Rome", 1, force="change"), claim("Bern", 5, force="change"), claim("Rome", 10, force="change")]
    made = ledger(*stays, claim("Rome", 9, said=14, force="correction"), claim("Rome", 11, said=15, force="correction"))
    assert told(made) == [("Bern", 5, 11), ("Rome", 1, 5), ("Rome", 11, None)]


def test_a_correction_of_the_newest_moves_the_end_of_the_one_before() -> None:
    made = ledger(claim("Rome", 1), claim("Bern", 5, force="change"), claim("Bern", 8, said=12, force="correction"))
    assert told(made) == [("Bern", 8, None), ("Rome", 1, 8)]


def test_a_correction_that_says_what_is_so_today_is_no_other_date() -> None:
    made = ledger(claim("Rome", 1, force="change"), claim("Bern", 5), claim("Rome", 9, force="correction"))
    assert told(made) == [("Bern", 5, 9), ("Rome", 1, 5), ("Rome", 9, None)]


def test_what_was_claimed_between_the_two_dates_never_held() -> None:
    made = ledger(claim("Rome", 7, force="change"), claim("Bern", 4), claim("Rome", 2, said=12, force="correction"))
    assert told(made) == [("Bern", 4, 4), ("Rome", 2, None)]
