"""What a model reads: the official layout byte for byte, the project's own, and no id in any of them."""

import json
from datetime import datetime, timedelta

import pytest

from longmemeval.memory.items import message_item
from longmemeval.reading.options import HISTORY_FORMATS, HistoryFormat
from longmemeval.reading.prompts import message_chunks, note_chunks, render_chunk, render_history
from longmemeval.records import Haystack, Recall, RecalledItem, Session, Turn
from longmemeval.storage.memory_store import MemoryStore

SATURDAY = datetime(2023, 5, 20, 2, 21)
TUESDAY = datetime(2023, 5, 30, 23, 40)
AWKWARD = (
    Session(
        "answer_1",
        SATURDAY,
        "",
        (Turn("user", 'He said "café" \\ 100%'), Turn("assistant", "Fine.\nSecond line. \U0001f600")),
    ),
    Session("filler_1", TUESDAY, "", (Turn("assistant", " \n"), Turn("user", "  {history} {0}\t"))),
)


def everything(*sessions: Session) -> Recall:
    store = MemoryStore.from_haystack(Haystack("h", sessions))
    return Recall(tuple(message_item(message) for message in store.messages))


def rendered(recall: Recall, layout: HistoryFormat) -> str:
    return render_history(recall, message_chunks(recall), layout)


def test_official_json_is_the_official_readers() -> None:
    assert rendered(everything(*AWKWARD), "official-json") == (
        "\n### Session 1:\nSession Date: 2023/05/20 (Sat) 02:21\nSession Content:\n\n"
        '[{"role": "user", "content": "He said \\"caf\\u00e9\\" \\\\ 100%"}, '
        '{"role": "assistant", "content": "Fine.\\nSecond line. \\ud83d\\ude00"}]\n'
        "\n### Session 2:\nSession Date: 2023/05/30 (Tue) 23:40\nSession Content:\n\n"
        '[{"role": "assistant", "content": " \\n"}, {"role": "user", "content": "  {history} {0}\\t"}]\n'
    )


def test_official_nl_is_the_official_readers() -> None:
    assert rendered(everything(*AWKWARD), "official-nl") == (
        "\n### Session 1:\nSession Date: 2023/05/20 (Sat) 02:21\nSession Content:\n"
        '\n\nuser: He said "café" \\ 100%\n\nassistant: Fine.\nSecond line. \U0001f600\n'
        "\n### Session 2:\nSession Date: 2023/05/30 (Tue) 23:40\nSession Content:\n"
        "\n\nassistant: \n\nuser: {history} {0}\n"
    )


def test_official_note_taking_shows_a_session_as_json_in_both_layouts() -> None:
    (_, second) = message_chunks(everything(*AWKWARD))
    expected = '[{"role": "assistant", "content": " \\n"}, {"role": "user", "content": "  {history} {0}\\t"}]'
    assert render_chunk(second, "official-json") == render_chunk(second, "official-nl") == expected


def test_nl_groups_by_day_with_time_and_speaker() -> None:
    history = everything(
        Session("a", SATURDAY, "", (Turn("user", " Hi! "), Turn("assistant", "Hello.\nHow are you?"))),
        Session("b", SATURDAY + timedelta(hours=9), "", (Turn("user", "Back again."),)),
        Session("c", TUESDAY, "", (Turn("user", "My dog is ill.", speaker="Ann"), Turn("assistant", ""))),
    )
    assert rendered(history, "nl") == (
        "## Saturday, 2023-05-20\n\n"
        "02:21\nuser: Hi!\nassistant: Hello.\nHow are you?\n\n"
        "11:21\nuser: Back again.\n\n"
        "## Tuesday, 2023-05-30\n\n"
        "23:40\nAnn: My dog is ill.\nassistant: "
    )


def test_two_sessions_of_the_same_minute_stay_apart() -> None:
    one, two = (Session(name, SATURDAY, "", (Turn("user", name.upper()),)) for name in ("x", "y"))
    assert rendered(everything(one, two), "nl") == "## Saturday, 2023-05-20\n\n02:21\nuser: X\n\n02:21\nuser: Y"


def test_json_parses_back_to_days_sessions_and_messages() -> None:
    text = rendered(everything(*AWKWARD), "json")
    assert json.loads(text) == [
        {
            "day": "Saturday, 2023-05-20",
            "sessions": [
                {
                    "time": "02:21",
                    "messages": [
                        {"speaker": "user", "text": 'He said "café" \\ 100%'},
                        {"speaker": "assistant", "text": "Fine.\nSecond line. \U0001f600"},
                    ],
                }
            ],
        },
        {
            "day": "Tuesday, 2023-05-30",
            "sessions": [
                {
                    "time": "23:40",
                    "messages": [
                        {"speaker": "assistant", "text": " \n"},
                        {"speaker": "user", "text": "  {history} {0}\t"},
                    ],
                }
            ],
        },
    ]
    assert "café" in text


@pytest.mark.parametrize(
    ("layout", "text"),
    [("nl", "(no earlier messages)"), ("json", "[]"), ("official-nl", ""), ("official-json", "")],
)
def test_empty_history(layout: HistoryFormat, text: str) -> None:
    assert rendered(Recall(()), layout) == text


def test_documents_come_first_under_a_heading() -> None:
    document = RecalledItem("working-memory", "- owns a boat\n", SATURDAY)
    message = everything(Session("a", SATURDAY, "", (Turn("user", "Hi!"),)))
    shown = rendered(Recall((document, *message.items)), "nl")
    assert shown == (
        "# What is known about the user\n\n- owns a boat\n\n"
        "# Earlier messages\n\n## Saturday, 2023-05-20\n\n02:21\nuser: Hi!"
    )


def noted() -> Recall:
    return Recall(
        (
            RecalledItem("message", 'has a "boat"', SATURDAY, message_ids=("a:0", "a:1"), thread_ids=("a",)),
            RecalledItem("message", "nothing relevant", TUESDAY, message_ids=("b:0",), thread_ids=("b",)),
        )
    )


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (
            "official-json",
            "\n### Session 1:\nSession Date: 2023/05/20 (Sat) 02:21\nSession Content:\n\n"
            '{"session_summary": "has a \\"boat\\""}\n'
            "\n### Session 2:\nSession Date: 2023/05/30 (Tue) 23:40\nSession Content:\n\n"
            '{"session_summary": "nothing relevant"}\n',
        ),
        (
            "official-nl",
            "\n### Session 1:\nSession Date: 2023/05/20 (Sat) 02:21\nSession Content:\n"
            '\n\nnotes: has a "boat"\n'
            "\n### Session 2:\nSession Date: 2023/05/30 (Tue) 23:40\nSession Content:\n"
            "\n\nnotes: nothing relevant\n",
        ),
        (
            "nl",
            '## Saturday, 2023-05-20\n\n02:21\nnotes: has a "boat"\n\n'
            "## Tuesday, 2023-05-30\n\n23:40\nnotes: nothing relevant",
        ),
        (
            "json",
            '[{"day": "Saturday, 2023-05-20", "sessions": [{"time": "02:21", "notes": "has a \\"boat\\""}]}, '
            '{"day": "Tuesday, 2023-05-30", "sessions": [{"time": "23:40", "notes": "nothing relevant"}]}]',
        ),
    ],
)
def test_notes_stand_where_the_sessions_stood(layout: HistoryFormat, text: str) -> None:
    assert render_history(noted(), note_chunks(noted()), layout) == text


class GermanDate(datetime):
    """A date as `strftime` gives it under a German locale."""

    def strftime(self, format: str) -> str:
        german = format.replace("%a", "Di").replace("%A", "Dienstag").replace("%b", "Mai").replace("%B", "Mai")
        return super().strftime(german)


@pytest.mark.parametrize("layout", HISTORY_FORMATS)
def test_dates_do_not_follow_the_locale(layout: HistoryFormat) -> None:
    here, abroad = (
        rendered(everything(Session("a", date, "", (Turn("user", "Hi!"),))), layout)
        for date in (datetime(2023, 5, 30, 23, 40), GermanDate(2023, 5, 30, 23, 40))
    )
    assert here == abroad
    assert "Tue" in abroad
