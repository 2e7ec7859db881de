"""What may be wrong with a record of each benchmark, and what its content hash must see."""

from collections.abc import Callable
from typing import Any

from tests.benchmarks.convomem.files import conversation

Change = Callable[[Any], object]
"""Of a record, in place."""


def within(*path: str | int, **changes: object) -> Change:
    """A change of the object that `path` leads to; None removes a key."""

    def change(record: dict[str, Any]) -> None:
        inner: Any = record
        for step in path:
            inner = inner[step]
        inner.update(changes)
        for key in [key for key, value in changes.items() if value is None]:
            del inner[key]

    return change


def turn_changer(session: int, turn: int, **changes: object) -> Change:
    return lambda record: record["haystack_sessions"][session][turn].update(changes)


def remover(name: str) -> Change:
    return lambda record: record.pop(name)


def setter(**changes: object) -> Change:
    return lambda record: record.update(changes)


_LONGMEMEVAL: list[tuple[str, Change, str, str]] = [
    ("answer is an empty list", setter(answer=[]), "field answer", "empty or blank"),
    ("answer is an empty object", setter(answer={}), "field answer", "empty or blank"),
    ("answer is null", setter(answer=None), "field answer", "got null"),
    ("answer is empty", setter(answer=""), "field answer", "empty or blank"),
    ("question is blank", setter(question="  "), "field question", "empty or blank"),
    ("answer is blank", setter(answer=" \n"), "field answer", "empty or blank"),
    ("question id is a number", setter(question_id=7), "field question_id", "got int"),
    ("question missing", remover("question"), "field question", "'question' is missing"),
    ("dates missing", remover("haystack_dates"), "field haystack_dates", "'haystack_dates' is missing"),
    ("type unknown", setter(question_type="multi-sesion"), "field question_type", "Did you mean 'multi-session'"),
    ("date of another form", setter(question_date="2023-05-30"), "field question_date", "YYYY/MM/DD"),
    ("date that is none", setter(question_date="2023/02/30 (Thu) 10:00"), "field question_date", "not a date"),
    (
        "date with foreign digits",
        setter(question_date="\uff12\uff10\uff12\uff13/05/30 (Tue) 10:00"),
        "field question_date",
        "not a date",
    ),
    ("session date", setter(haystack_dates=["2023/05/22 (Mon) 10:00"] * 2 + ["x"]), "haystack_dates[2]", "'x' is not"),
    ("lists differ in length", setter(haystack_session_ids=["answer_b"]), "haystack_session_ids", "3 dates, 1 session"),
    ("session id blank", setter(haystack_session_ids=["a", "answer_b", ""]), "haystack_session_ids[2]", "blank"),
    ("evidence elsewhere", setter(answer_session_ids=["answer_c"]), "answer_session_ids[0]", "Did you mean 'answer_b'"),
    ("role", turn_changer(1, 1, role="system"), "haystack_sessions[1][1].role", "'system' is not a role"),
    ("content", turn_changer(0, 1, content=3), "haystack_sessions[0][1].content", "got int"),
    ("label", turn_changer(1, 0, has_answer="yes"), "haystack_sessions[1][0].has_answer", "got str"),
    ("label in quotes", turn_changer(1, 0, has_answer="true"), "haystack_sessions[1][0].has_answer", "without quotes"),
    ("label is a number", turn_changer(0, 0, has_answer=0), "haystack_sessions[0][0].has_answer", "got int"),
    ("label is empty", turn_changer(0, 0, has_answer=""), "haystack_sessions[0][0].has_answer", "got str"),
    ("no content", lambda record: record["haystack_sessions"][2][0].pop("content"), "[2][0].content", "is missing"),
    ("session not a list", setter(haystack_sessions=[[], {}, []]), "haystack_sessions[1]", "got object"),
    ("id with a slash", setter(question_id="../../etc"), "field question_id", "begins with a dot"),
    ("id with a separator", setter(question_id="a/b"), "field question_id", "path separator"),
    ("id with a backslash", setter(question_id="a\\b"), "field question_id", "path separator"),
    ("id with an escape", setter(question_id="a\x1b[31m"), "field question_id", "cannot be printed"),
    ("id with a NUL", setter(question_id="a\0"), "field question_id", "cannot be printed"),
    ("id too long", setter(question_id="a" * 201), "field question_id", "201 characters"),
    ("id empty", setter(question_id=""), "field question_id", "empty or blank"),
]

_LOCOMO: list[tuple[str, Change, str, str]] = [
    ("no conversation", within(conversation=None), "field conversation", "'conversation' is missing"),
    ("no qa", within(qa=None), "field qa", "'qa' is missing"),
    ("id is a number", within(sample_id=26), "field sample_id", "got int"),
    ("id is blank", within(sample_id=" "), "field sample_id", "empty or blank"),
    ("id with a separator", within(sample_id="a/b"), "field sample_id", "path separator"),
    ("id with an escape", within(sample_id="a\x1b[31m"), "field sample_id", "cannot be printed"),
    ("conversation is a list", within(conversation=[]), "field conversation", "got array"),
    ("no speaker", within("conversation", speaker_a=None), "field conversation.speaker_a", "is missing"),
    ("speaker is blank", within("conversation", speaker_b=""), "field conversation.speaker_b", "empty or blank"),
    ("equal speakers", within("conversation", speaker_b="Ann"), "field conversation.speaker_b", "called 'Ann'"),
    (
        "no session",
        within("conversation", session_1=None, session_2=None, session_10=None),
        "field conversation",
        "has no session",
    ),
    ("session is no list", within("conversation", session_2="Hi"), "field conversation.session_2", "got str"),
    (
        "session without date",
        within("conversation", session_2_date_time=None),
        "field conversation.session_2_date_time",
        "is missing",
    ),
    (
        "date is a number",
        within("conversation", session_2_date_time=7),
        "field conversation.session_2_date_time",
        "got int",
    ),
    (
        "date of another form",
        within("conversation", session_2_date_time="2023/05/09"),
        "field conversation.session_2_date_time",
        "'2023/05/09' is not a date",
    ),
    (
        "another speaker",
        within("conversation", "session_10", 1, speaker="Anna"),
        "field conversation.session_10[1].speaker",
        "Did you mean 'Ann'",
    ),
    (
        "dialogue id of another place",
        within("conversation", "session_10", 1, dia_id="D10:3"),
        "field conversation.session_10[1].dia_id",
        "'D10:2'",
    ),
    (
        "no text",
        within("conversation", "session_10", 1, text=None),
        "field conversation.session_10[1].text",
        "is missing",
    ),
    (
        "caption is a list",
        within("conversation", "session_2", 0, blip_caption=["x"]),
        "field conversation.session_2[0].blip_caption",
        "got array",
    ),
    ("blank question", within("qa", 0, question="\n"), "field qa[0].question", "empty or blank"),
    ("evidence is a text", within("qa", 0, evidence="D1:1"), "field qa[0].evidence", "got str"),
    ("evidence is a number", within("qa", 3, evidence=["D1:1", 2]), "field qa[3].evidence[1]", "got int"),
    ("category unknown", within("qa", 2, category=6), "field qa[2].category", "Valid: 1 (multi-hop), 2 (temporal)"),
    ("category is a text", within("qa", 2, category="3"), "field qa[2].category", "got str"),
    ("no answer", within("qa", 1, answer=None), "field qa[1].answer", "needs the field 'answer'"),
    ("answer is an empty list", within("qa", 1, answer=[]), "field qa[1].answer", "empty or blank"),
    ("answer is blank", within("qa", 1, answer=" "), "field qa[1].answer", "empty or blank"),
    ("trap is a list", within("qa", 4, adversarial_answer=["x"]), "field qa[4].adversarial_answer", "got array"),
]

_CONVOMEM: list[tuple[str, Change, str, str]] = [
    ("no items", lambda case: case.pop("evidenceItems"), "evidenceItems", "'evidenceItems' is missing"),
    ("no conversations", lambda case: case.pop("conversations"), "conversations", "'conversations' is missing"),
    ("null haystack", lambda case: case.update(conversations=None), "conversations", "'conversations' is missing"),
    ("no haystack", lambda case: case.update(conversations=[]), "conversations", "has no conversation"),
    ("size", lambda case: case.update(contextSize="4"), "contextSize", "got str"),
    (
        "no question",
        lambda case: case["evidenceItems"][1].pop("question"),
        "evidenceItems[1].question",
        "'question' is missing",
    ),
    (
        "blank answer",
        lambda case: case["evidenceItems"][0].update(answer=" "),
        "evidenceItems[0].answer",
        "empty or blank",
    ),
    ("answer", lambda case: case["evidenceItems"][0].update(answer=5), "evidenceItems[0].answer", "got int"),
    (
        "no evidence messages",
        lambda case: case["evidenceItems"][0].pop("message_evidences"),
        "evidenceItems[0].message_evidences",
        "is missing",
    ),
    (
        "evidence without text",
        lambda case: case["evidenceItems"][1]["message_evidences"][0].pop("text"),
        "evidenceItems[1].message_evidences[0].text",
        "'text' is missing",
    ),
    (
        "item without conversations",
        lambda case: case["evidenceItems"][1].update(conversations=[]),
        "evidenceItems[1].conversations",
        "has no conversation",
    ),
    (
        "conversation of the item is elsewhere",
        lambda case: case["evidenceItems"][1]["conversations"].append(conversation("c-new", "Never said")),
        "evidenceItems[1].conversations[2]",
        "The conversation 'c-new' of the item is not among those of its test case",
    ),
    (
        "nameless conversation of the item is elsewhere",
        lambda case: case["evidenceItems"][0]["conversations"].append(conversation(None, "Never said")),
        "evidenceItems[0].conversations[1]",
        "The conversation of the item is not among",
    ),
    ("no messages", lambda case: case["conversations"][2].pop("messages"), "conversations[2].messages", "is missing"),
    (
        "nothing said",
        lambda case: case["conversations"][2].update(messages=[]),
        "conversations[2].messages",
        "has no message",
    ),
    ("id", lambda case: case["conversations"][3].update(id=7), "conversations[3].id", "got int"),
    (
        "speaker",
        lambda case: case["conversations"][1]["messages"][1].update(speaker="John"),
        "conversations[1].messages[1].speaker",
        "'John' is not a speaker",
    ),
    (
        "text",
        lambda case: case["conversations"][1]["messages"][0].update(text=None),
        "conversations[1].messages[0].text",
        "got null",
    ),
]


FAULTS: dict[str, list[tuple[str, Change, str, str]]] = {
    "longmemeval": _LONGMEMEVAL,
    "locomo": _LOCOMO,
    "convomem": [(name, change, f"field {field})", what) for name, change, field, what in _CONVOMEM],
    "locomo-plus": [
        ("cue without speaker", setter(cue_dialogue="I sold my car."), "field cue_dialogue", ""),
        ("nothing said", setter(trigger_query="A: "), "field trigger_query", ""),
        ("gap is a number", setter(time_gap=3), "field time_gap", "got int"),
    ],
    "factconsolidation": [
        ("another task", setter(metadata={"source": "eventqa_65536", "qa_pair_ids": ["a"]}), "", "another task"),
        ("two answers", setter(answers=[["milk", "tea"]]), "", "one official answer"),
        ("no answers", setter(answers=[]), "", "different numbers"),
        ("another beginning", setter(context="Facts:\n0. Ann likes tea."), "", "does not begin with"),
        (
            "a serial number is missing",
            setter(context="Here is a list of facts:\n0. Ann likes tea.\n2. Ann likes milk."),
            "",
            "serial number, '1. '",
        ),
        ("questions are a text", setter(questions="all"), "", "not a row"),
    ],
    "personamem": [
        ("one option", setter(all_options="['(a) one']"), "", "four texts"),
        ("options are code", setter(all_options="__import__('os')"), "", "four texts"),
        ("another letter", setter(correct_answer="(e)"), "", "'(e)' is not one of"),
        ("unknown context", setter(shared_context_id="f" * 64), "", "Context ffffffffffff is missing"),
        ("end beyond the context", setter(end_index_in_shared_context="7"), "", "not a number of turns"),
    ],
    "beam": [
        ("unknown ability", lambda probes: probes.update(juggling=[{}]), "juggling", "is not an ability"),
        ("blank question", lambda probes: probes["summarization"][0].update(question=" "), "", "missing or blank"),
        ("rubric of nothing", lambda probes: probes["summarization"][0].update(rubric=[]), "", "not a list of texts"),
        ("not a list", lambda probes: probes.update(summarization={}), "", "not an object of lists"),
    ],
    "conversations": [
        ("no question", remover("question"), "question 2", "question"),
        ("misspelt field", lambda asked: asked.update(anwser="Ana"), "question 2", "anwser"),
        ("no date", setter(date="1 May"), "question 2, date", "'1 May' is not a date"),
        ("evidence elsewhere", setter(evidence=["s0009:0"]), "", "s0009"),
        ("a word that YAML reads as true", setter(answer=True), "question 2, answer", "Put the value in quotes"),
        ("an id that YAML reads as a number", setter(id=7), "question 2, id", "Put the value in quotes"),
    ],
    "lives": [
        ("too short", setter(sessions=[5]), "", "5 sessions"),
        ("no life", setter(lives=0), "", "lives is 0"),
        ("no length", setter(sessions=[]), "", "sessions is []"),
        ("another version", setter(version=0), "", "version 0"),
        ("seed is a text", setter(lives_seed="x"), "", "cannot be read"),
    ],
}
"""Benchmark -> name, change of the last record of its sample, what names the field, and what is said of it."""

CHANGES: dict[str, list[Change]] = {
    "longmemeval": [
        turn_changer(0, 0, content="Hi!"),
        turn_changer(0, 0, role="assistant"),
        turn_changer(1, 1, has_answer=False),
        turn_changer(0, 0, speaker="Ann"),
        setter(answer="oslo"),
        setter(answer=2.5),
        setter(answer=["Oslo", {"or": None}]),
        setter(question_date="2023/05/30 (Tue) 23:41"),
        setter(haystack_session_ids=["late", "answer_b", "tie2"]),
    ],
    "locomo": [
        within(sample_id="conv-2"),
        within("conversation", "session_1", 0, text="Hi!"),
        within("conversation", "session_1", 0, speaker="Bo"),
        within("conversation", "session_2", 0, blip_caption="a lake"),
        within("conversation", session_1_date_time="1:57 pm on 8 May, 2023"),
        within("qa", 1, answer="2023"),
        within("qa", 1, answer=[2023, "or later"]),
        within("qa", 1, category=3),
        within("qa", 0, evidence=["D10:1"]),
        within("qa", 4, adversarial_answer="Ann's"),
    ],
    "convomem": [
        lambda case: case["evidenceItems"][0].update(answer="Rome"),
        lambda case: case["evidenceItems"][1].update(question="What?"),
        lambda case: case["evidenceItems"][1]["message_evidences"].pop(),
        lambda case: case["evidenceItems"][1]["conversations"].pop(),
        lambda case: case["conversations"][1]["messages"].pop(),
        lambda case: case["conversations"][1]["messages"][0].update(speaker="Assistant"),
        lambda case: case["conversations"].reverse(),
        lambda case: case.update(contextSize=5),
    ],
    "locomo-plus": [
        setter(cue_dialogue="A: I sold my boat.\nB: Good for you."),
        setter(trigger_query="A: The bus was early."),
        setter(time_gap="three weeks later"),
    ],
    "factconsolidation": [
        setter(context="Here is a list of facts:\n0. Ann likes tea.\n1. Ann likes beer.\n"),
        setter(questions=["What does Ann drink?"]),
        setter(answers=[["beer"]]),
    ],
    "personamem": [
        setter(user_question_or_message="What shall I eat?"),
        setter(correct_answer="(c)"),
        setter(end_index_in_shared_context="4"),
    ],
    "beam": [
        lambda probes: probes["summarization"][0].update(question="Why?"),
        lambda probes: probes["summarization"][0].update(rubric=["another"]),
        lambda probes: probes["abstention"][0].update(ideal_response="Nothing."),
    ],
    "conversations": [
        setter(question="Who?"),
        setter(answer="Ana"),
        setter(type="update"),
        setter(evidence=["s0001:0"]),
    ],
    "lives": [setter(lives_seed=8), setter(lives=2), setter(sessions=[11])],
}
"""Benchmark -> changes of the last record of its sample that make it another data set."""
