"""The offline updater: what it takes, what it leaves, and that it is deterministic and idempotent."""

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longmemeval.errors import HarnessError
from longmemeval.memory.working_memory import (
    WorkingMemoryUpdate,
    build_working_memory,
    load_template,
    rules_updater,
)
from longmemeval.memory.working_memory.document import Document
from longmemeval.memory.working_memory.statements import MAX_MESSAGE, RULES
from longmemeval.records import Haystack, Role, Session, Turn
from tests.support import IN_PROPORTION, examples, growth

DAY = datetime(2023, 5, 20, 2, 21)


def session(*messages: str, day: datetime = DAY, role: Role = "user", speaker: str = "") -> Session:
    return Session("answer_1", day, "", tuple(Turn(role, message, speaker) for message in messages))


def entries(document: str) -> list[tuple[str, str]]:
    draft = Document(document)
    return [(heading, entry.text) for index, heading in enumerate(draft.headings) for entry in draft.entries(index)]


def told(*messages: str) -> list[tuple[str, str]]:
    return entries(rules_updater().update("", session(*messages)).document)


@pytest.mark.parametrize(
    ("message", "section", "text"),
    [
        ("My name is Anna Lee and I'd like a recipe.", "Profile", "My name is Anna Lee"),
        ("Hi! I'm Anna, can you help me?", "Profile", "Hi, I'm Anna"),
        ("I'm allergic to peanuts.", "Profile", "I'm allergic to peanuts."),
        ("By the way, I live in Boston, Massachusetts.", "Home", "I live in Boston, Massachusetts."),
        ("The weather is odd, but I just moved to New York.", "Home", "I just moved to New York."),
        ("My apartment in Brooklyn is small.", "Home", "My apartment in Brooklyn is small."),
        ("I work as a software engineer at Google.", "Work and education", "I work as a software engineer at Google."),
        ("I have a Bachelor's degree in Biology.", "Work and education", "I have a Bachelor's degree in Biology."),
        (
            "I started a new job as a teacher last week, can you help me plan my first class?",
            "Work and education",
            "I started a new job as a teacher last week",
        ),
        ("My sister Emily is visiting.", "Family and people", "My sister Emily is visiting."),
        ("I\u2019m walking my dog Max.", "Family and people", "I'm walking my dog Max."),
        ("I can't stand loud music.", "Preferences", "I can't stand loud music."),
        ("My favourite colour is blue.", "Preferences", "My favourite colour is blue."),
        ("I own a 2015 Honda Civic.", "Possessions", "I own a 2015 Honda Civic."),
        ("I bought a new racket and was wondering how to string it.", "Possessions", "I bought a new racket"),
        ("I have an appointment with Dr. Smith on Friday.", "Plans", "I have an appointment with Dr. Smith on Friday."),
        ("I'll be visiting my aunt next week.", "Plans", "I'll be visiting my aunt next week."),
        ("I attended a pottery workshop.", "Events and activities", "I attended a pottery workshop."),
    ],
)
def test_statement_becomes_an_entry(message: str, section: str, text: str) -> None:
    assert told(message) == [(section, text)]


@pytest.mark.parametrize(
    "message",
    [
        "Do I need a visa if I live in Boston?",
        "Should I say that I work as a nurse?",
        "If I had a dog, my dog Max would be happy.",
        "I would like to know more about jobs.",
        "I'd love to visit Paris next week.",
        "I wish I lived in Boston.",
        "For example, I live in Boston.",
        "Let's say I bought a car for $20,000.",
        "In this scenario, I work as a detective.",
        "I love it! I like that idea. I love how easy this is.",
        "I have a question about taxes. I have no idea. I got it from Amazon.",
        "I'm Italian. I'm Looking for a book. My name is not important.",
        "Hi, I'm Italian and hungry.",
        "She lives in Boston and works as a nurse. John bought a new car last week.",
        '"I live in Paris," she said.',
        "He said: I live in Paris.\nHer answer:\nI live in Rome.",
        "> I live in Paris",
        "Act as a doctor. I live in London and I have two dogs.",
        "I want you to act as a travel guide. I am from Istanbul.",
        "Pretend I work as a spy and my name is James Bond.",
        "You are a helpful assistant. My name is Bob.",
        "Imagine you are a pirate. I own a ship.",
        "Write a story where I live in Paris and my dog Max dies.",
        "Can you write a poem about how I love my sister Emily?",
        "I need you to write an email to my boss. I started a new job as a chef.",
        "Translate to French: My name is John and I live in Berlin.",
        "Please summarize this. I attended a conference in Rome.",
        "Dear Sir,\nmy name is John Smith and I work as a broker.\nBest regards",
        "Tom: I live in Paris.\nAnn: I bought a car.",
        "```\n# I live in Boston\n```",
        "int x = 1;\nI have a cat",
        "I have a function that returns an int. I got an error. I ran the script twice.",
        "I read the article you sent. I tried your tips.",
    ],
)
def test_what_is_not_the_users_own_claim_is_left_out(message: str) -> None:
    assert told(message) == []


def test_only_the_user_is_read() -> None:
    assert entries(rules_updater().update("", session("I live in Boston.", role="assistant")).document) == []


def test_role_play_ends_the_reading_of_its_session() -> None:
    assert told("I live in Boston.", "Pretend you are a king.", "I live in Camelot.") == [("Home", "I live in Boston.")]


def test_named_speaker_is_the_user() -> None:
    document = rules_updater().update("", session("Hello!", "Bye!", speaker="Caroline")).document
    assert entries(document) == [("Profile", "My name is Caroline")]


def test_long_sentence_keeps_whole_clauses_around_the_statement() -> None:
    before = "the weather has been strange all over the country for many weeks on end now and nobody can say why"
    after = "it came with a charger, a case, two straps and a rather thick manual in eleven languages"
    ((_, text),) = told(f"{before.capitalize()}, but I bought a new watch, and {after}.")
    assert text == f"I bought a new watch, and {after}."
    ((_, cut),) = told(f"I bought a watch {'that is good ' * 20}.")
    assert len(cut) <= 160
    assert cut.startswith("I bought a watch that is good")
    assert cut.endswith(" \u2026")


def test_overlong_message_is_noted_not_read() -> None:
    update = rules_updater().update("", session("I live in Boston. " + "Lorem ipsum. " * 200))
    assert update.document == load_template(None)
    (note,) = update.notes
    assert note.startswith("2023-05-20: a message of 2618 characters")


def test_newer_home_closes_the_older_one() -> None:
    updater, later = rules_updater(), datetime(2023, 6, 1)
    document = updater.update("", session("I live in Boston with my cat.", "I'm from Texas.")).document
    document = updater.update(document, session("I moved to Denver last week.", day=later)).document
    assert "- [2023-05-20, until 2023-06-01] I live in Boston with my cat.\n" in document
    assert "- [2023-05-20] I'm from Texas.\n- [2023-06-01] I moved to Denver last week.\n" in document


def test_the_same_home_in_other_words_closes_nothing() -> None:
    document = rules_updater().update("", session("I live in Boston.", "I'm living in Boston now.")).document
    assert "until" not in document


def test_going_back_is_a_new_entry() -> None:
    updater, document = rules_updater(), ""
    for month, home in enumerate(("Boston", "Denver", "Boston"), start=1):
        document = updater.update(document, session(f"I live in {home}.", day=datetime(2023, month, 1))).document
    assert [line for line in document.splitlines() if line.startswith("- ")] == [
        "- [2023-01-01, until 2023-02-01] I live in Boston.",
        "- [2023-02-01, until 2023-03-01] I live in Denver.",
        "- [2023-03-01] I live in Boston.",
    ]


def test_repeated_statement_is_entered_once() -> None:
    assert told("I own a boat.", "Well, I own a boat!") == [("Possessions", "I own a boat.")]


def test_own_template_gets_entries_by_heading_else_in_the_last_section() -> None:
    updater = rules_updater("# Me\n\n## Where I live\n\n## Career\n\n## Notes\n")
    document = updater.update("", session("I live in Boston. I work as a nurse. I own a boat.")).document
    assert entries(document) == [
        ("Where I live", "I live in Boston."),
        ("Career", "I work as a nurse."),
        ("Notes", "I own a boat."),
    ]


def test_template_without_section_is_refused() -> None:
    with pytest.raises(HarnessError, match="no section"):
        rules_updater("just text")


def test_recipe_follows_the_template() -> None:
    assert rules_updater().recipe == rules_updater(load_template(None)).recipe
    assert rules_updater("## A").recipe != rules_updater("## B").recipe
    json.dumps(rules_updater().recipe)


def test_worker_process_writes_the_same() -> None:
    updater, one = rules_updater(), session("I own a boat.")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(updater.update, "", one).result() == updater.update("", one)


@pytest.mark.thorough
@pytest.mark.parametrize("part", ["I am ", "a, ", "\n", " and I", '"', "my "])
@pytest.mark.parametrize("size", [MAX_MESSAGE // 4 - 1, 25_000])
def test_no_rule_takes_long_over_hostile_text(part: str, size: int) -> None:
    def update(size: int) -> None:
        rules_updater().update("", session(part * (size // len(part)) + "."))

    assert growth(update, size) < IN_PROPORTION


def test_sessions_are_taken_oldest_first_whatever_their_order() -> None:
    old, new = session("I live in Boston."), session("I live in Denver.", day=DAY + timedelta(days=1))
    one = build_working_memory(Haystack("h", (old, new)), rules_updater())
    assert one == build_working_memory(Haystack("h", (new, old)), rules_updater())
    assert "- [2023-05-20, until 2023-05-21] I live in Boston." in one.document


SENTENCES = [
    "I live in Boston.",
    "I live in Denver.",
    "I moved to Chicago, and I work as a nurse.",
    "I work as a chef at Luigi's.",
    "My name is Anna and I live in Boston.",
    "My name is Bella.",
    "I own a boat.",
    "I love my cat Tom, so I bought a new brush and my sister Emily laughed.",
    "I'm planning a trip to Rome.",
    "Can you help?",
    "## Home",
    "- [2020-01-01] I own a car.",
]
MESSAGES = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5).map(" ".join) | st.text(max_size=80)
SESSIONS = st.lists(st.lists(MESSAGES, max_size=4), min_size=1, max_size=4).map(
    lambda days: [session(*messages, day=DAY + timedelta(days=index)) for index, messages in enumerate(days)]
)
TEMPLATES = st.sampled_from([load_template(None), "## Home\n## Home\n# X\n## Rest", "## \u00dc\n\ntext\n\n- bullet\n"])


def skeleton(document: str) -> list[str]:
    """All lines but entries and empty lines."""
    draft = Document(document)
    return [line for index, line in enumerate(document.split("\n")) if line and draft.entry_at(index) is None]


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(SESSIONS, TEMPLATES)
def test_updates_are_idempotent_and_change_entry_lines_only(sessions: list[Session], template: str) -> None:
    updater, document = rules_updater(template), template
    for one in sessions:
        before = Document(document).entries()
        document = updater.update(document, one).document
        assert updater.update(document, one).document == document
        assert skeleton(document) == skeleton(template)
        after = [(entry.day, entry.text) for entry in Document(document).entries()]
        assert all((entry.day, entry.text) in after for entry in before)


@pytest.mark.slow
@settings(max_examples=examples(150))
@given(SESSIONS, TEMPLATES)
def test_sessions_at_once_give_the_same_document_as_one_by_one(sessions: list[Session], template: str) -> None:
    updater, document, notes = rules_updater(template), template, tuple[str, ...]()
    for one in sessions:
        update = updater.update(document, one)
        document, notes = update.document, notes + update.notes
    assert updater.update(template, *sessions) == WorkingMemoryUpdate(document, notes=notes)


@pytest.mark.slow
def test_work_grows_with_the_history_and_no_faster() -> None:
    def calls(count: int) -> int:
        """Function calls, those into C included, that a history of `count` sessions takes."""
        told = [
            f"I live in City{i}. I work as a {i} nurse. I bought a new lamp{i}. I love tea{i}." for i in range(count)
        ]
        sessions = [session(text, day=DAY + timedelta(days=i)) for i, text in enumerate(told)]
        updater, made = rules_updater(), 0

        def count_call(frame: object, event: str, argument: object) -> None:
            nonlocal made
            made += event in ("call", "c_call")

        sys.setprofile(count_call)
        try:
            updater.update("", *sessions)
        finally:
            sys.setprofile(None)
        return made

    calls(10)
    assert calls(400) < 1.1 * 10 * calls(40)


def test_every_rule_names_a_section_of_the_shipped_template() -> None:
    headings = [heading.casefold() for heading in Document(load_template(None)).headings]
    for rule in RULES:
        assert any(keyword in heading for heading in headings for keyword in rule.keywords)


def test_real_history_gives_the_degree_and_little_else_on_work(real_longmemeval: Path) -> None:
    (record,) = json.loads(real_longmemeval.read_text(encoding="utf-8"))
    columns = zip(record["haystack_session_ids"], record["haystack_dates"], record["haystack_sessions"], strict=True)
    sessions = tuple(
        Session(
            session_id,
            datetime.strptime(day, "%Y/%m/%d (%a) %H:%M"),
            day,
            tuple(Turn(turn["role"], turn["content"]) for turn in turns),
        )
        for session_id, day, turns in columns
    )
    document = build_working_memory(Haystack("h", sessions), rules_updater()).document
    degree = "I graduated with a degree in Business Administration, which has definitely helped me in my new role."
    assert f"- [2023-05-30] {degree}\n" in document
    found = entries(document)
    assert [text for heading, text in found if heading == "Work and education"] == [degree]
    assert [text for heading, text in found if heading in ("Profile", "Home")] == []
    assert (
        "Family and people",
        "I recently attended my best friend Rachel's baby shower, celebrating with games, food, "
        "and gifts, and I want to get something for her little one Lucas.",
    ) in found
    assert 40 < len(found) < 70
    assert all(len(text) <= 160 for _, text in found)
    assert not any(text.endswith("?") for _, text in found)
