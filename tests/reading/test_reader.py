"""Reading methods: which calls are made with which prompts, and what the answer says of them."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longmemeval.core.files import sha256_bytes
from longmemeval.errors import FatalModelError, HarnessError, ModelError
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.llm.tokens import Counted, token_counter
from longmemeval.memory.items import message_item
from longmemeval.reading.configuration import ReadingConfiguration, reading_configuration
from longmemeval.reading.options import HISTORY_FORMATS, READING_METHODS, HistoryFormat, OverflowPolicy, ReadingMethod
from longmemeval.reading.prompts import Chunk, SentPrompt, message_chunks, render_history
from longmemeval.reading.reader import Reader
from longmemeval.reading.tool_loop import Reading
from longmemeval.records import Haystack, Question, Recall, RecalledItem, Session, Turn, Usage
from longmemeval.storage.memory_store import MemoryStore
from tests.support import examples

START = datetime(2023, 5, 20, 2, 21)
QUESTION = Question("q_1_abs", "Where is my dog?", datetime(2023, 5, 30, 23, 40), "2023/05/30 (Tue) 23:40", "h")
ROOM = 1000  # What the reader keeps free of the window besides the answer.


class Characters:
    """Counts characters."""

    name = "characters"

    def count(self, text: str) -> int:
        return len(text)

    def counted(self, text: str) -> Counted:
        return Counted(len(text))

    def counted_whole(self, whole: str, texts: Sequence[str], counts: Sequence[Counted]) -> Counted:
        return Counted(len(whole))


class FakeModel:
    """Answers with what `respond` makes of a request; every reply costs 1 call and 10 prompt tokens.

    Of calls that are under way together the last is answered first, the first after `patience` seconds.
    """

    spec = "test/fake"

    def __init__(
        self,
        respond: Callable[[ChatRequest], str] = lambda request: " At home. ",
        *,
        patience: float = 0.0,
        finish_reason: str = "stop",
    ) -> None:
        self._respond = respond
        self._finish_reason = finish_reason
        self._patience = patience
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        text = self._respond(request)
        await asyncio.sleep(self._patience / len(self.requests))
        return ChatReply(
            text, self._finish_reason, Usage(calls=1, prompt_tokens=10), served_model="fake-2024", attempts=2
        )

    @property
    def prompts(self) -> list[str]:
        return [request.messages[0].content for request in self.requests]


def everything(*sessions: Session) -> Recall:
    store = MemoryStore.from_haystack(Haystack("h", sessions))
    return Recall(tuple(message_item(message) for message in store.messages))


def session(number: int, *texts: str) -> Session:
    turns = tuple(Turn("assistant" if index % 2 else "user", text) for index, text in enumerate(texts))
    return Session(f"answer_{number}", START + timedelta(days=number), "", turns)


THREE = everything(session(0, "My dog Rex ran off.", "Oh no!"), session(1, "Rex is back."), session(2, "Hi.", "Hello."))


def read(model: FakeModel, recall: Recall, configuration: ReadingConfiguration | None = None) -> Reading:
    return asyncio.run(Reader(configuration or reading_configuration(), model, Characters()).read(QUESTION, recall))


def own(folder: Path, text: str, name: str = "mine.txt") -> Path:
    file = folder / name
    file.write_text(text)
    return file


@pytest.mark.parametrize(("method", "max_tokens"), [("direct", 500), ("con", 800)])
def test_one_call_holds_the_history_the_date_and_the_question(method: ReadingMethod, max_tokens: int) -> None:
    model = FakeModel()
    reading = read(model, THREE, reading_configuration(method))
    (request,) = model.requests
    assert (request.max_tokens, request.temperature) == (max_tokens, 0.0)
    assert [message.role for message in request.messages] == ["user"]
    (prompt,) = model.prompts
    for text in (*(item.text for item in THREE.items), "2023/05/30 (Tue) 23:40", "Where is my dog?", "2023-05-21"):
        assert text in prompt
    assert request.passages == tuple(item.text for item in THREE.items)

    answer = reading.answer
    assert (answer.status, answer.hypothesis, answer.error) == ("ok", "At home.", "")
    assert (answer.finish_reason, answer.served_model, answer.attempts) == ("stop", "fake-2024", 2)
    assert answer.recall_ids == ("answer_0:0", "answer_0:1", "answer_1:0", "answer_2:0", "answer_2:1")
    assert answer.recall_tokens == sum(len(item.text) for item in THREE.items)
    assert answer.prompt_tokens == len(prompt)
    assert answer.usage == Usage(calls=1, prompt_tokens=10)


@pytest.mark.parametrize("spec", ["openai/gpt-4o", "offline/extractive"])
def test_questions_on_the_same_history_render_and_count_it_once(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[Recall] = []

    def spied(shown: Recall, chunks: Sequence[Chunk], layout: HistoryFormat) -> str:
        rendered.append(shown)
        return render_history(shown, chunks, layout)

    monkeypatch.setattr("longmemeval.reading.reader.render_history", spied)
    model, counter = FakeModel(), token_counter(spec)
    reader = Reader(reading_configuration(), model, counter)
    other = msgspec.structs.replace(QUESTION, text="And my cat?")
    for asked, recall in ((QUESTION, THREE), (other, THREE), (other, Recall(THREE.items[:2])), (QUESTION, THREE)):
        known = [token_counter(spec).counted(item.text) for item in recall.items]
        readings = [asyncio.run(reader.read(asked, recall, tells)) for tells in (None, lambda known=known: known)]
        for reading in readings:
            assert reading.answer.prompt_tokens == token_counter(spec).count(model.prompts[-1])
            assert reading.answer.recall_tokens == sum(counter.count(item.text) for item in recall.items)
        assert asked.text in model.prompts[-1]
        assert ("Rex is back." in model.prompts[-1]) == (recall is THREE)
    assert [len(shown.items) for shown in rendered] == [5, 2, 5]


def test_prompts_are_kept_as_sent_with_their_hash() -> None:
    model = FakeModel()
    reading = read(model, THREE)
    (sent,) = reading.prompts
    assert (sent.question_id, sent.purpose) == ("q_1_abs", "answer")
    line = msgspec.json.decode(msgspec.json.encode(sent), type=SentPrompt)
    assert line.messages == (ChatMessage("user", model.prompts[0]),)
    assert line.sha256 == reading.answer.prompt_sha256 == sha256_bytes(msgspec.json.encode(line.messages))
    assert msgspec.json.encode(line) == msgspec.json.encode(sent)


def test_own_template_in_the_official_layout(tmp_path: Path) -> None:
    template = own(tmp_path, "Mine. History Chats:\n\n{}\n\nToday: {}\nAsked: {}")
    model = FakeModel()
    read(model, THREE, reading_configuration(template=template, history_format="official-json"))
    assert model.prompts == [
        "Mine. History Chats:\n\n\n### Session 1:\nSession Date: 2023/05/20 (Sat) 02:21\nSession Content:\n\n"
        '[{"role": "user", "content": "My dog Rex ran off."}, {"role": "assistant", "content": "Oh no!"}]\n'
        "\n### Session 2:\nSession Date: 2023/05/21 (Sun) 02:21\nSession Content:\n\n"
        '[{"role": "user", "content": "Rex is back."}]\n'
        "\n### Session 3:\nSession Date: 2023/05/22 (Mon) 02:21\nSession Content:\n\n"
        '[{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]\n'
        "\n\nToday: 2023/05/30 (Tue) 23:40\nAsked: Where is my dog?"
    ]


def test_own_template_with_names_and_hostile_history(tmp_path: Path) -> None:
    template = own(tmp_path, "{question} ({question_date})\n{history}\n{{end}}")
    model = FakeModel()
    history = everything(session(0, "{question} %s {0} 100%"))
    read(model, history, reading_configuration(template=template))
    assert model.prompts == [
        "Where is my dog? (2023/05/30 (Tue) 23:40)\n"
        "## Saturday, 2023-05-20\n\n02:21\nuser: {question} %s {0} 100%\n{end}"
    ]


def test_con_separate_takes_notes_on_each_session_and_answers_from_them(tmp_path: Path) -> None:
    note_template = own(tmp_path, "NOTES {}\n{}\nfor {}: {}", "note.txt")
    template = own(tmp_path, "ANSWER {history}\n{question_date} {question}")
    replies = {"ANSWER": " At home. ", "Rex ran": " Rex ran off. ", "Rex is back": "Rex is back.", "Hello": "nothing"}
    model = FakeModel(
        lambda request: next(replies[key] for key in replies if key in request.messages[0].content), patience=0.05
    )
    configuration = reading_configuration(
        "con-separate", template=template, note_template=note_template, history_format="official-json"
    )
    reading = read(model, THREE, configuration)

    assert [request.max_tokens for request in model.requests] == [500, 500, 500, 800]
    assert model.prompts == [
        "NOTES 2023/05/20 (Sat) 02:21\n"
        '[{"role": "user", "content": "My dog Rex ran off."}, {"role": "assistant", "content": "Oh no!"}]\n'
        "for 2023/05/30 (Tue) 23:40: Where is my dog?",
        "NOTES 2023/05/21 (Sun) 02:21\n"
        '[{"role": "user", "content": "Rex is back."}]\nfor 2023/05/30 (Tue) 23:40: Where is my dog?',
        "NOTES 2023/05/22 (Mon) 02:21\n"
        '[{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]\n'
        "for 2023/05/30 (Tue) 23:40: Where is my dog?",
        "ANSWER \n### Session 1:\nSession Date: 2023/05/20 (Sat) 02:21\nSession Content:\n\n"
        '{"session_summary": "Rex ran off."}\n'
        "\n### Session 2:\nSession Date: 2023/05/21 (Sun) 02:21\nSession Content:\n\n"
        '{"session_summary": "Rex is back."}\n'
        "\n### Session 3:\nSession Date: 2023/05/22 (Mon) 02:21\nSession Content:\n\n"
        '{"session_summary": "nothing"}\n'
        "\n2023/05/30 (Tue) 23:40 Where is my dog?",
    ]
    assert [prompt.purpose for prompt in reading.prompts] == ["note", "note", "note", "answer"]
    assert [request.passages for request in model.requests] == [
        ("My dog Rex ran off.", "Oh no!"),
        ("Rex is back.",),
        ("Hi.", "Hello."),
        ("Rex ran off.", "Rex is back.", "nothing"),
    ]
    answer = reading.answer
    assert answer.hypothesis == "At home."
    assert answer.recall_ids == tuple(item.message_ids[0] for item in THREE.items)
    assert answer.usage == Usage(calls=4, prompt_tokens=40)
    assert answer.prompt_tokens == sum(map(len, model.prompts))
    assert answer.attempts == 8
    assert answer.prompt_sha256 == reading.prompts[-1].sha256


def test_con_separate_without_any_message_makes_one_call() -> None:
    model = FakeModel()
    assert read(model, Recall(()), reading_configuration("con-separate")).answer.status == "ok"
    assert [request.max_tokens for request in model.requests] == [800]


def test_con_separate_keeps_documents_as_they_are() -> None:
    document = RecalledItem("working-memory", "- Rex is a dachshund", START)
    model = FakeModel()
    read(model, Recall((document, *THREE.items)), reading_configuration("con-separate"))
    assert [prompt.count("- Rex is a dachshund") for prompt in model.prompts] == [0, 0, 0, 1]


def test_facts_first_answers_from_facts_and_messages(tmp_path: Path) -> None:
    template = own(tmp_path, "ANSWER {history}\n{question_date} {question}", "facts-first.txt")
    note_template = own(tmp_path, "LIST {history}\nfor {question_date}: {question}", "facts.txt")
    model = FakeModel(
        lambda request: (
            "- Rex ran off.\n\n2) Rex is back.\nNothing relevant."
            if request.messages[0].content.startswith("LIST")
            else " At home. "
        )
    )
    reading = read(model, THREE, reading_configuration("facts-first", template=template, note_template=note_template))
    history = render_history(THREE, message_chunks(THREE), "nl")
    date = "2023/05/30 (Tue) 23:40"
    assert [request.max_tokens for request in model.requests] == [512, 256]
    assert model.prompts == [
        f"LIST {history}\nfor {date}: Where is my dog?",
        f"ANSWER # Facts\n\n- Rex ran off.\n- Rex is back.\n\n# Earlier messages\n\n{history}\n{date} Where is my dog?",
    ]
    assert [prompt.purpose for prompt in reading.prompts] == ["note", "answer"]
    answer = reading.answer
    assert (answer.hypothesis, answer.usage.calls) == ("At home.", 2)
    assert answer.recall_ids == tuple(item.message_ids[0] for item in THREE.items)
    assert answer.prompt_tokens == sum(map(len, model.prompts))


def test_a_list_of_facts_that_was_cut_loses_its_last_line() -> None:
    model = FakeModel(lambda request: "- Rex ran off.\n- Rex is not ba", finish_reason="length")
    read(model, THREE, reading_configuration("facts-first"))
    assert "Rex ran off." in model.prompts[1]
    assert "Rex is not ba" not in model.prompts[1]


def test_facts_find_room_beside_what_the_first_call_showed() -> None:
    model = FakeModel(lambda request: "\n".join(f"- {number} " + "f" * 45 for number in range(10)))
    configuration = reading_configuration("facts-first", on_overflow="drop-oldest", context_window=window(3000, 256))
    answer = read(model, LONG, configuration).answer
    assert answer.status == "ok"
    assert len(model.prompts[0]) <= 3000 - 512
    assert 2000 < len(model.prompts[1]) <= 3000
    shown = [item.message_ids[0] for item in LONG.items if item.text in model.prompts[1]]
    assert (list(answer.recall_ids), answer.dropped) == (shown, len(LONG.items) - len(shown))


def failing(text: str, error: Exception) -> Callable[[ChatRequest], str]:
    def respond(request: ChatRequest) -> str:
        if text in request.messages[0].content:
            raise error
        return "noted"

    return respond


def test_failed_note_call_is_an_error_that_counts_what_was_paid() -> None:
    model = FakeModel(failing("Rex is back", ModelError("Refused", fix="Ask nicely")))
    reading = read(model, THREE, reading_configuration("con-separate"))
    answer = reading.answer
    assert (answer.status, answer.hypothesis, answer.error) == ("error", "", "Refused. Ask nicely.")
    assert len(model.requests) == 3
    assert answer.usage == Usage(calls=2, prompt_tokens=20)
    assert answer.prompt_tokens == sum(map(len, model.prompts))
    assert (answer.recall_ids, answer.prompt_sha256) == ((), "")
    assert [prompt.purpose for prompt in reading.prompts] == ["note", "note", "note"]


def test_failed_answer_call_is_an_error_with_its_prompt() -> None:
    model = FakeModel(failing("Where is my dog?", ModelError("Refused")))
    reading = read(model, THREE)
    answer = reading.answer
    assert (answer.status, answer.hypothesis, answer.error, answer.usage) == ("error", "", "Refused.", Usage())
    assert answer.prompt_sha256 == reading.prompts[0].sha256
    assert answer.recall_ids == tuple(item.message_ids[0] for item in THREE.items)


@pytest.mark.parametrize("method", READING_METHODS)
def test_fatal_error_is_not_an_answer(method: ReadingMethod) -> None:
    def respond(request: ChatRequest) -> str:
        if "Oh no!" in request.messages[0].content and method == "con-separate":
            raise ModelError("this question only")
        raise FatalModelError("No key")

    with pytest.raises(FatalModelError, match="No key"):
        read(FakeModel(respond), THREE, reading_configuration(method))


LONG = everything(*(session(day, *(f"<{day}.{index}>" + "x" * 94 for index in range(4))) for day in range(5)))


def window(prompt_tokens: int, max_tokens: int = 100) -> int:
    return prompt_tokens + max_tokens + ROOM


def test_overflow_is_an_error_by_default() -> None:
    model = FakeModel()
    reading = read(model, LONG, reading_configuration(context_window=window(500), max_tokens=100))
    answer = reading.answer
    assert model.requests == []
    assert (answer.status, answer.recall_ids, reading.prompts) == ("error", (), ())
    whole = read(FakeModel(), LONG).answer.prompt_tokens
    assert f"{whole} tokens" in answer.error
    assert "500 fit" in answer.error


@pytest.mark.parametrize("layout", HISTORY_FORMATS)
@pytest.mark.parametrize("policy", ["drop-oldest", "drop-newest"])
def test_answer_names_exactly_the_messages_in_the_shortened_prompt(
    layout: HistoryFormat, policy: OverflowPolicy
) -> None:
    model = FakeModel()
    document = RecalledItem("working-memory", "- Rex is a dachshund", START, thread_ids=("answer_0",))
    configuration = reading_configuration(
        history_format=layout, on_overflow=policy, context_window=window(1500), max_tokens=100
    )
    answer = read(model, Recall((document, *LONG.items)), configuration).answer
    (prompt,) = model.prompts
    assert len(prompt) == answer.prompt_tokens <= 1500
    assert "- Rex is a dachshund" in prompt
    in_prompt = [item.message_ids[0] for item in LONG.items if item.text in prompt]
    assert answer.recall_ids == tuple(in_prompt)
    assert 5 < len(in_prompt) < 15
    ids = [item.message_ids[0] for item in LONG.items]
    assert in_prompt == (ids[-len(in_prompt) :] if policy == "drop-oldest" else ids[: len(in_prompt)])
    (note,) = answer.notes
    assert note.startswith(f"{policy}: {20 - len(in_prompt)} messages left out")


def test_notes_that_do_not_fit_are_dropped_with_their_whole_session(tmp_path: Path) -> None:
    note_template = own(tmp_path, "NOTES {session_date} {session} {question_date} {question}", "note.txt")
    model = FakeModel(lambda request: "n" * 300 if "NOTES" in request.messages[0].content else "At home.")
    configuration = reading_configuration(
        "con-separate",
        note_template=note_template,
        on_overflow="drop-oldest",
        context_window=window(1600),
        max_tokens=100,
    )
    answer = read(model, LONG, configuration).answer
    kept = model.prompts[-1].count("n" * 300)
    assert 0 < kept < 5
    assert answer.recall_ids == tuple(item.message_ids[0] for item in LONG.items)[-4 * kept :]
    assert answer.notes[-1].startswith(f"drop-oldest: {20 - 4 * kept} messages left out")
    assert answer.usage.calls == 6


def test_session_too_large_for_its_note_call_follows_the_policy_too() -> None:
    history = everything(session(0, "old " * 150, "new " * 150), session(1, "y" * 2000), session(2, "Hi."))
    refusing, dropping = FakeModel(), FakeModel()
    # 500 tokens are for the note: a prompt may have 1300.
    small = 1300 + 500 + ROOM
    refused = read(refusing, history, reading_configuration("con-separate", context_window=small)).answer
    assert (refused.status, refusing.requests) == ("error", [])
    assert "1300 fit" in refused.error

    configuration = reading_configuration("con-separate", context_window=small, on_overflow="drop-oldest")
    answer = read(dropping, history, configuration).answer
    assert [request.max_tokens for request in dropping.requests] == [500, 500, 800]
    assert "old old" not in dropping.prompts[0]
    assert "new new" in dropping.prompts[0]
    assert answer.recall_ids == ("answer_0:1", "answer_2:0")
    assert [note.partition(",")[0] for note in answer.notes] == [
        "drop-oldest: 1 messages left out",
        "drop-oldest: 1 messages left out",
    ]


def test_unknown_window_is_not_checked() -> None:
    answer = read(FakeModel(), everything(session(0, "x" * 3_000_000))).answer
    assert answer.status == "ok"
    assert answer.prompt_tokens > 3_000_000


@pytest.mark.parametrize(("method", "size"), [("direct", 1500), ("con", 1800), ("con-separate", 1800)])
def test_window_without_room_for_a_prompt_is_refused_at_once(method: ReadingMethod, size: int) -> None:
    with pytest.raises(HarnessError, match=f"window of {size} tokens has no room"):
        Reader(reading_configuration(method, context_window=size), FakeModel(), Characters())
    Reader(reading_configuration(method, context_window=size + 1), FakeModel(), Characters())


def test_notes_and_time_of_the_memory_reach_the_answer() -> None:
    recall = msgspec.structs.replace(THREE, notes=("nothing found",), milliseconds=12.5)
    answer = read(FakeModel(), recall).answer
    assert (answer.notes, answer.recall_ms) == (("nothing found",), 12.5)


ids = st.text(alphabet="ABCXYZ_.#-/", min_size=4, max_size=8).map(lambda text: f"answer_{text}")
# No text can spell an id: they have no capital letter.
contents = st.text(alphabet="abc {}%\"'\n\u00fc", max_size=12)
histories = st.lists(st.tuples(ids, st.lists(contents, min_size=1, max_size=3)), min_size=1, max_size=4)


@pytest.mark.slow
@settings(max_examples=examples(60))
@given(histories, ids)
def test_no_id_and_always_the_date_in_every_prompt(history: list[tuple[str, list[str]]], question_id: str) -> None:
    sessions = (
        Session(name, START + timedelta(days=day), "", tuple(Turn("user", text) for text in texts))
        for day, (name, texts) in enumerate(history)
    )
    recall = everything(*sessions)
    document = RecalledItem("working-memory", "- a boat", START, thread_ids=tuple(name for name, _ in history))
    recall = Recall((document, *recall.items))
    question = Question(f"{question_id}_abs", "why?", QUESTION.date, QUESTION.date_text, f"haystack_{question_id}")
    planted = {question.question_id, question.haystack_id, question_id}
    planted.update(name for item in recall.items for name in (*item.message_ids, *item.thread_ids))
    for method in READING_METHODS:
        for layout in HISTORY_FORMATS:
            model = FakeModel(lambda request: "noted")
            reader = Reader(reading_configuration(method, history_format=layout), model, Characters())
            asyncio.run(reader.read(question, recall))
            for prompt in model.prompts:
                assert not [name for name in planted if name in prompt]
                assert "2023/05/30 (Tue) 23:40" in prompt
                assert "why?" in prompt
