"""Keys by rules: small histories with known keys, the same bytes every time, the real file."""

import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longmemeval.datasets.registry import load_dataset
from longmemeval.retrieval.expansion import Expansion, ExpansionKind, ExpansionLevel, encode, rule_maker
from longmemeval.retrieval.expansion.sentences import sentences, statements
from longmemeval.storage.memory_store import MemoryStore
from tests.retrieval.support import history

KINDS: tuple[ExpansionKind, ...] = ("summary", "keyphrase", "fact", "event")
LEVELS: tuple[ExpansionLevel, ...] = ("turn", "session")

STORE = history(
    [
        ("user", "By the way, I adopted a beagle named Max yesterday. Do you know a good vet?"),
        ("assistant", "I love beagles! I recommend Dr. Paw."),
        ("user", "Thanks! Max is two years old, and I bought him a red collar on May 3rd, do you have any tips?"),
    ],
    [("user", "What is the capital of France?"), ("assistant", "Paris. I visited it yesterday.")],
    [("assistant", "Hello, I am your assistant.")],
)


def made(kind: ExpansionKind, level: ExpansionLevel, store: MemoryStore = STORE) -> tuple[Expansion, ...]:
    return rule_maker(kind, level).make(store).items


def test_facts_are_what_the_user_tells_of_themself() -> None:
    adopted = "I adopted a beagle named Max yesterday."
    bought = "Max is two years old, and I bought him a red collar on May 3rd"
    assert made("fact", "turn") == (
        Expansion("s1:0", (adopted,)),
        Expansion("s1:1", ()),
        Expansion("s1:2", (bought,)),
        Expansion("s2:0", ()),
        Expansion("s2:1", ()),
        Expansion("s3:0", ()),
    )
    assert made("fact", "session") == (
        Expansion("s1", (adopted, bought)),
        Expansion("s2", ()),
        Expansion("s3", ()),
    )


def test_events_are_facts_with_their_days() -> None:
    (session, *others) = made("event", "session")
    assert session.texts == (
        "I adopted a beagle named Max yesterday.",
        "Max is two years old, and I bought him a red collar on May 3rd",
    )
    assert session.dates[0] == date(2023, 4, 30)
    assert all(not other.texts and not other.dates for other in others)


def test_event_of_a_long_period_has_no_day_and_two_days_make_two_events() -> None:
    store = history(
        [("user", "I moved to Oslo last year. I left Paris on March 3rd, 2022 and came back on March 9th, 2022.")]
    )
    (event,) = made("event", "turn", store)
    back = "I left Paris on March 3rd, 2022 and came back on March 9th, 2022."
    assert event.texts == ("I moved to Oslo last year.", back, back)
    assert event.dates == (None, date(2022, 3, 3), date(2022, 3, 9))


def test_keyphrases_are_the_telling_word_sequences() -> None:
    store = history(
        [("user", "I really like the Golden Gate Bridge. The Golden Gate Bridge is near my tennis club.")],
        [("user", "My tennis racket is new. I went to the tennis court.")],
        [("user", "Thank you so much, that's really helpful!")],
    )
    bridge, racket, thanks = made("keyphrase", "session", store)
    assert bridge.texts == ("Golden Gate Bridge", "tennis club")
    assert set(racket.texts) == {"tennis racket", "tennis court"}
    assert thanks.texts in ((), ("helpful",))


def test_keyphrase_keeps_its_form_and_never_crosses_a_comma() -> None:
    store = history([("user", "My 5-year-old Labradors, Rachel's Gel-Kayano shoes and D\u2019Angelo's studies.")])
    (phrases,) = made("keyphrase", "turn", store)
    assert set(phrases.texts) == {"5-year-old Labradors", "Rachel's Gel-Kayano shoes", "D'Angelo's studies"}


def test_at_most_eight_keyphrases() -> None:
    words = ["apple", "river", "castle", "violin", "desert", "pepper", "window", "galaxy", "hammer", "island", "jacket"]
    text = ". ".join(f"The {word} of the {other}" for word in words for other in words)
    (phrases,) = made("keyphrase", "turn", history([("user", text)]))
    assert len(phrases.texts) == 8
    assert set(phrases.texts) <= set(words)


def test_summary_is_the_sentences_the_unit_turns_on() -> None:
    store = history(
        [
            ("user", "Hi! I am planning a trip to Japan in spring. Okay."),
            ("assistant", "Kyoto is lovely. Pack light."),
            ("user", "Which temples in Kyoto should I see on the trip to Japan? Thanks a lot."),
        ],
        [("user", "Thanks a lot. Okay.")],
    )
    (summary, _) = made("summary", "session", store)
    assert summary.texts == (
        "I am planning a trip to Japan in spring. Which temples in Kyoto should I see on the trip to Japan?",
    )


def test_summary_of_pasted_text_is_bounded() -> None:
    (summary,) = made("summary", "turn", history([("user", "lorem ipsum dolor " * 5000)]))
    (text,) = summary.texts
    assert len(text) <= 400
    assert text.endswith("\u2026")


def test_both_people_of_a_conversation_have_keys_under_their_names() -> None:
    store = history([("Caroline", "I adopted a dog."), ("Melanie", "I painted a sunset! Is it a puppy?")])
    assert [item.texts for item in made("fact", "turn", store)] == [
        ("Caroline: I adopted a dog.",),
        ("Melanie: I painted a sunset!",),
    ]
    assert "sunset" in made("keyphrase", "session", store)[0].texts


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("I have a cat. What about you?", ["I have a cat."]),
        ("i have a cat", ["I have a cat"]),
        ("Oh, by the way, my sister lives in Rome.", ["My sister lives in Rome."]),
        ("I run daily, can you suggest a podcast?", ["I run daily"]),
        ("I take the bus and I was wondering if you know a good book.", ["I take the bus"]),
        ("Dr. Smith saw me on Monday. It was fine.", ["Dr. Smith saw me on Monday."]),
        ("I\u2019m 30", ["I'm 30"]),
        ("The Nile is long.", []),
        ("Can you help me?", []),
        ("Please tell me more.", []),
        ("I was wondering if you know Rome.", []),
        ("You mentioned that I need a visa.", []),
        ("Write a story: I am a pirate.", []),
        ("Act as my lawyer. I own a house.", []),
        ("```\nI = 1\n```\nI wrote this.", []),
        ("Dear Sir,\nI am writing to complain.", []),
        ("I own a boat. " + "x " * 3000, []),
        ("", []),
    ],
)
def test_statements(message: str, told: list[str]) -> None:
    assert statements(message) == told


def test_the_opening_act_is_no_role_play() -> None:
    assert statements("We saw the show. The opening act was as good as my favourite band.") != []


def test_sentences_end_at_signs_and_lines() -> None:
    assert sentences('One.  Two!\nthree\n\n- four? "Five." Six e.g. seven') == [
        "One.",
        "Two!",
        "three",
        "- four?",
        '"Five."',
        "Six e.g. seven",
    ]


def test_recipe_names_kind_and_level() -> None:
    recipes = [rule_maker(kind, level).recipe for kind in KINDS for level in LEVELS]
    assert all(recipe["maker"] == "rules" for recipe in recipes)
    assert len({str(recipe) for recipe in recipes}) == 8


MESSAGES = st.text(max_size=40) | st.sampled_from(
    ["I have a cat.", "On May 3rd we met.", "?", "\n", " ", "My my my", "\u2026 \u2014 \U0001f600", "1 2 3", "I" * 500]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), MESSAGES), max_size=3), max_size=3))
def test_any_history_has_one_expansion_for_every_unit_in_order(sessions: list[list[tuple[str, str]]]) -> None:
    store = history(*sessions)
    for kind in KINDS:
        turns, threads = made(kind, "turn", store), made(kind, "session", store)
        assert [item.unit_id for item in turns] == [message.message_id for message in store.messages]
        assert [item.unit_id for item in threads] == [thread.id for thread in store.threads]
        assert all(text.strip() for item in (*turns, *threads) for text in item.texts)
        silent = {message.message_id for message in store.messages if message.role == "assistant"}
        assert not any(item.texts for item in turns if item.unit_id in silent)
        encode(kind, "turn", turns)
        encode(kind, "session", threads)


def test_real_history_in_good_time(real_longmemeval: Path) -> None:
    store = MemoryStore.from_haystack(next(iter(load_dataset(str(real_longmemeval)).haystacks())))
    started = time.perf_counter()
    for kind in KINDS:
        for level in LEVELS:
            items = made(kind, level, store)
            assert len(items) == (550 if level == "turn" else 53)
    assert time.perf_counter() - started < 3
    facts = {item.unit_id: item.texts for item in made("fact", "turn", store)}
    assert any("Business Administration" in text for texts in facts.values() for text in texts)


def test_hash_seed_does_not_show(real_longmemeval: Path) -> None:
    code = (
        "import sys, hashlib\n"
        "from longmemeval.datasets.registry import load_dataset\n"
        "from longmemeval.retrieval.expansion import encode, rule_maker\n"
        "from longmemeval.storage.memory_store import MemoryStore\n"
        "store = MemoryStore.from_haystack(next(iter(load_dataset(sys.argv[1]).haystacks())))\n"
        "for kind in ('summary', 'keyphrase', 'fact', 'event'):\n"
        "    items = rule_maker(kind, 'session').make(store).items\n"
        "    print(hashlib.sha256(encode(kind, 'session', items)).hexdigest())\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, str(real_longmemeval)],
            env={"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
