"""Reading by tools: what each tool gives, and how far a model that asks for them may go."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec
import pytest

from longmemeval.errors import HarnessError
from longmemeval.llm.offline import ExtractiveModel
from longmemeval.llm.protocol import ChatReply, ChatRequest, ToolCall
from longmemeval.llm.tokens import token_counter
from longmemeval.memory.items import message_item
from longmemeval.reading.configuration import ReadingConfiguration, reading_configuration
from longmemeval.reading.reader import Reader
from longmemeval.reading.tool_loop import Files, Reading
from longmemeval.records import Answer, Haystack, Question, Recall, Session, Turn, Usage
from longmemeval.storage.messages import haystack_messages
from tests.reading.test_reader import Characters

START = datetime(2023, 5, 20, 2, 21)
QUESTION = Question("q_1_abs", "Where is my dog Rex?", datetime(2023, 5, 30, 23, 40), "2023/05/30 (Tue) 23:40", "h")
Said = str | list[tuple[str, object]]


def history(sessions: int = 3, long: int = 0) -> Recall:
    """Sessions about the weather; the second tells where the dog is."""
    rain = long * " x"
    told = [
        Session(
            f"answer_{number}",
            START + timedelta(days=number),
            "",
            (
                Turn("user", "My dog Rex sleeps in the barn." if number == 1 else f"Rain on day {number}.{rain}"),
                Turn("assistant", "I see."),
            ),
        )
        for number in range(sessions)
    ]
    return recall_of(*told)


def recall_of(*sessions: Session) -> Recall:
    return Recall(tuple(map(message_item, haystack_messages(Haystack("h", sessions)))))


class ToolModel:
    """Does what a script says: a text is the answer, pairs are calls of tools."""

    spec = "test/tools"

    def __init__(self, script: Callable[[ChatRequest], Said]) -> None:
        self._script = script
        self.requests: list[ChatRequest] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        said = self._script(request)
        usage = Usage(calls=1, prompt_tokens=10)
        if isinstance(said, str):
            return ChatReply(said, "stop", usage)
        calls = tuple(
            ToolCall(f"c{number}", name, given if isinstance(given, str) else json.dumps(given))
            for number, (name, given) in enumerate(said)
        )
        return ChatReply("", "tool_calls", usage, tool_calls=calls)


def scripted(*steps: Said) -> ToolModel:
    """A model that goes through these steps, and repeats the last of them."""
    left = list(steps)
    return ToolModel(lambda request: left.pop(0) if len(left) > 1 else left[0])


def read(model: ToolModel, recall: Recall | None = None, configuration: ReadingConfiguration | None = None) -> Reading:
    reader = Reader(configuration or reading_configuration("files"), model, Characters())
    return asyncio.run(reader.read(QUESTION, recall or history()))


# The tools


def test_files_are_named_by_number_and_day_and_never_by_session() -> None:
    files = Files(history(120).items, "nl")
    assert str(files) == "120 files, 001_2023-05-20.txt to 120_2023-09-16.txt."
    first, second = files.list_files().text.splitlines(), files.list_files(2).text.splitlines()
    assert (len(first), first[0], first[-1]) == (101, "001_2023-05-20.txt: 2 messages", "(20 more: page 2)")
    assert (len(second), second[-1]) == (20, "120_2023-09-16.txt: 2 messages")
    everything = [*first, *second, files.search_files("rex").text, files.read_file("002_2023-05-21.txt").text]
    assert "answer_" not in "\n".join(everything)


def test_a_search_finds_by_words_the_rare_ones_first() -> None:
    found = Files(history().items, "nl").search_files("Where does Rex sleep on day 2?")
    assert found.text.splitlines()[0] == "002_2023-05-21.txt, message 1: user: My dog Rex sleeps in the barn."
    assert found.items[0].message_ids == ("answer_1:0",)
    assert Files(history().items, "nl").search_files("zeppelin").text == "No message has any of these words."


def test_a_message_that_a_search_cuts_does_not_count_as_read() -> None:
    found = Files(history(long=400).items, "nl").search_files("rain")
    assert found.items == ()
    assert found.text.splitlines()[0].endswith(" …")


def test_a_long_file_is_read_in_parts_that_leave_nothing_out() -> None:
    files = Files(
        recall_of(Session("s", START, "", tuple(Turn("user", f"{n} " + "y" * 3000) for n in range(10)))).items, "nl"
    )
    seen, start = list[str](), 1
    while start <= 10:
        part = files.read_file("001_2023-05-20.txt", start)
        seen += [message_id for item in part.items for message_id in item.message_ids]
        start += len(part.items)
    assert seen == [f"s:{number}" for number in range(10)]
    assert "read on with from_message 4" in files.read_file("001_2023-05-20.txt").text
    assert files.read_file("001_2023-05-20.txt", 11).items == ()
    assert "There is no file '1.txt'" in files.read_file("1.txt").text


# The loop


def test_only_answers_read_by_tools_have_steps_in_the_file() -> None:
    direct = msgspec.json.encode(Answer("q", "In the barn.", "ok"))
    assert b"steps" not in direct
    older = msgspec.json.decode(direct[:-1] + b',"steps":[]}', type=Answer)
    assert (older.steps, older.hypothesis) == ((), "In the barn.")
    answer = read(scripted([("search_files", {"query": "Rex"})], "In the barn.")).answer
    line = msgspec.json.encode(answer)
    assert b'"steps":[{"tool":"search_files"' in line
    assert msgspec.json.decode(line, type=Answer) == answer


def test_what_was_read_is_what_was_recalled() -> None:
    model = scripted(
        [("search_files", {"query": "Rex"})], [("read_file", {"name": "001_2023-05-20.txt"})], " In the barn. "
    )
    reading = read(model)
    answer = reading.answer
    assert (answer.hypothesis, answer.status, answer.cut_ids) == ("In the barn.", "ok", ())
    assert answer.recall_ids == ("answer_1:0", "answer_0:0", "answer_0:1")
    assert [(step.tool, step.outcome) for step in answer.steps] == [
        ("search_files", "1 hit"),
        ("read_file", "messages 1 to 2 of 2"),
    ]
    assert answer.usage == Usage(calls=3, prompt_tokens=30)
    assert [prompt.purpose for prompt in reading.prompts] == ["step"] * 3
    assert answer.prompt_sha256 == reading.prompts[-1].sha256
    assert answer.prompt_tokens == sum(request.prompt_tokens or 0 for request in model.requests)
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]
    last = model.requests[-1]
    assert [message.role for message in last.messages] == ["user", "assistant", "tool", "assistant", "tool"]
    assert last.messages[2].tool_call_id == last.messages[1].tool_calls[0].id
    assert last.passages == ("My dog Rex sleeps in the barn.", "Rain on day 0.", "I see.")


def test_no_label_reaches_the_model() -> None:
    model = scripted([("list_files", {}), ("search_files", {"query": "Rex dog"})], "Barn.")
    read(model)
    sent = "".join(message.content for request in model.requests for message in request.messages)
    assert "answer_" not in sent
    assert QUESTION.question_id not in sent


def test_steps_are_bounded_and_the_last_call_has_to_answer() -> None:
    model = ToolModel(lambda request: "At last." if request.must_answer else [("list_files", {})])
    answer = read(model, configuration=reading_configuration("files", steps=4)).answer
    assert (answer.hypothesis, len(answer.steps), len(model.requests)) == ("At last.", 4, 5)
    assert model.requests[-1].messages[-1].content.startswith("Answer the question now")
    stubborn = read(scripted([("list_files", {})]), configuration=reading_configuration("files", steps=2)).answer
    assert stubborn.status == "error"
    assert "The reply is empty" in stubborn.error


@pytest.mark.parametrize("budget", [9_000, 12_000, 20_000, 60_000])
def test_the_budget_counts_all_prompts(budget: int) -> None:
    """A model that reads whatever it is given stays inside; what there is no room for is withheld where it sees it."""
    names = [f"{number + 1:03}_{START + timedelta(days=number):%Y-%m-%d}.txt" for number in range(8)]
    model = ToolModel(
        lambda request: "Enough." if request.must_answer else [("read_file", {"name": name}) for name in names]
    )
    within = reading_configuration("files", prompt_budget=budget, max_tokens=50)
    answer = read(model, history(8, long=900), within).answer
    assert answer.hypothesis == "Enough."
    assert answer.prompt_tokens == sum(request.prompt_tokens or 0 for request in model.requests) <= budget
    contents = [message.content for message in model.requests[-1].messages if message.role == "tool"]
    withheld = [step for step in answer.steps if step.outcome.startswith("withheld")]
    assert contents.count("(not shown: there is no room left for it)") == len(withheld)
    assert bool(withheld) == (budget < 20_000)
    assert not any(step.message_ids for step in withheld)
    assert any("for want of room" in note for note in answer.notes)


def test_a_budget_without_room_for_a_step_is_an_error_of_the_question() -> None:
    answer = read(scripted("no"), configuration=reading_configuration("files", prompt_budget=100)).answer
    assert answer.status == "error"
    assert "no room for a step" in answer.error


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("read_file", "not json"), "wrong arguments"),
        (("read_file", {"name": "x.txt", "more": 1}), "wrong arguments"),
        (("read_file", {"name": [1]}), "wrong arguments"),
        (("read_file", {"name": 5}), "wrong arguments"),
        (("read_file", {}), "wrong arguments"),
        (("search_files", {"query": 3}), "wrong arguments"),
        (("search_files", {"query": "rain", "page": "two"}), "wrong arguments"),
        (("remove_file", {"name": "001_2023-05-20.txt"}), "no such tool"),
        (("read_file", {"name": "../../etc/passwd"}), "no such file"),
        (("list_files", {"page": -3}), "3 files"),
        (("read_file", {"name": "001_2023-05-20.txt", "from_message": 99}), "no such message"),
    ],
)
def test_a_mistake_of_the_model_is_told_to_the_model(call: tuple[str, object], told: str) -> None:
    model = scripted([call], "I don't know.")
    answer = read(model).answer
    assert (answer.status, answer.steps[0].outcome) == ("ok", told)


def test_too_many_calls_at_one_time_are_not_made() -> None:
    model = scripted([("list_files", {})] * 20, "Done.")
    answer = read(model).answer
    assert len(answer.steps) == 8
    assert answer.notes == ("files: 12 calls beyond 8 of one reply not made",)
    asked = model.requests[-1].messages
    assert [call.id for call in asked[1].tool_calls] == [message.tool_call_id for message in asked[2:]]


def test_offline_models_can_run_it() -> None:
    reader = Reader(reading_configuration("files"), ExtractiveModel(), token_counter("offline/extractive"))
    answer = asyncio.run(reader.read(QUESTION, history())).answer
    assert "barn" in answer.hypothesis
    assert [step.tool for step in answer.steps] == ["search_files", "read_file"]
    assert answer.recall_ids == ("answer_1:0", "answer_1:1")


def test_bounds_of_tools_are_refused_where_there_are_none() -> None:
    with pytest.raises(HarnessError, match="--reading files"):
        reading_configuration("direct", steps=3)


def test_each_prompt_begins_with_the_one_before() -> None:
    """So that providers need not read it again."""
    model = scripted([("list_files", {})], [("search_files", {"query": "Rex"})], "Barn.")
    read(model)
    assert all(later.messages[: len(one.messages)] == one.messages for one, later in pairwise(model.requests))
