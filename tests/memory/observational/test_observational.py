"""Observational memory with a scripted observer: the log, its condensation, where each line comes from, the prompt."""

import asyncio
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.measures.losses import stage_of
from longmemeval.memory.configuration import resolve_configuration
from longmemeval.memory.observational.log import ObservationLog, UnusableReply, read_observations
from longmemeval.memory.observational.part import (
    LogKeeper,
    LogSettings,
    batches,
    log_by_rules,
    waiting_groups,
)
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.records import Answer, Gold, Message, Role, Usage
from longmemeval.results.run_files import RunFiles
from tests.pipeline.helpers import folders_in
from tests.server import ModelServer
from tests.support import record, write_dataset

DAY = datetime(2023, 5, 20, 10, 0)


def message(thread: str, index: int, text: str, *, day: int = 20, role: Role = "user") -> Message:
    at = datetime(2023, 5, day, 10, index)
    return Message(f"{thread}:{index}", thread, role, "", text, at, index)


class Scripted:
    """Gives the replies in their order; a tuple is text and finish reason."""

    spec = "test/scripted"

    def __init__(self, *replies: str | tuple[str, str]) -> None:
        self.replies, self.requests = list(replies), list[ChatRequest]()

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        await asyncio.sleep(0)
        given = self.replies.pop(0)
        text, reason = given if isinstance(given, tuple) else (given, "stop")
        return ChatReply(text, reason, Usage(calls=1))

    @property
    def asked(self) -> list[str]:
        return [request.messages[1].content for request in self.requests]


def tagged(*lines: str) -> str:
    return "\n".join(["Here.", "<observations>", *lines, "</observations>", "Done."])


def kept(model: Scripted, messages: list[Message], **settings: Any) -> tuple[ObservationLog, LogKeeper]:
    keeper = LogKeeper(model, LogSettings(**settings))
    return asyncio.run(keeper.keep(messages)), keeper


MESSAGES = [
    message("answer_1", 0, "I moved to Porto last week." + " x" * 20),
    message("answer_1", 1, "Congratulations!" + " y" * 20, role="assistant"),
    message("filler", 0, "I bought a green bike." + " z" * 20, day=21),
    message("answer_2", 0, "I sold the bike.", day=22),
]
OBSERVED = tagged(
    "# 2023-05-20",
    "- 🔴 10:00 The user moved to Porto (meaning 2023-05-13) {A1}",
    "  - before: Lisbon {A2}",
    "# 2023-05-21",
    "- 🟡 10:00 The user bought a green bike {B1}",
)


def test_messages_above_the_threshold_become_dated_lines_that_name_their_turns() -> None:
    log, keeper = kept(model := Scripted(OBSERVED), MESSAGES, message_tokens=40)
    assert [(one.day, one.text, one.message_ids, one.thread_ids) for one in log.observations] == [
        (
            date(2023, 5, 20),
            "🔴 10:00 The user moved to Porto (meaning 2023-05-13)\nbefore: Lisbon",
            ("answer_1:0", "answer_1:1"),
            ("answer_1",),
        ),
        (date(2023, 5, 21), "🟡 10:00 The user bought a green bike", ("filler:0",), ("filler",)),
    ]
    assert (log.unobserved, log.forgotten, keeper.notes) == (("answer_2:0",), (), [])
    (asked,) = model.asked
    assert "[A1] 10:00 user: I moved to Porto" in asked
    assert "[B1] 10:00 user: I bought a green bike" in asked
    assert "I sold the bike" not in asked
    everything = "".join(one.content for request in model.requests for one in request.messages)
    assert not any(identifier in everything for identifier in ("answer_1", "answer_2", "filler"))
    assert [request.temperature for request in model.requests] == [0.3]


def test_the_observer_sees_the_end_of_the_log() -> None:
    second = tagged("- 🔴 10:00 The user sold the bike {A1}")
    model = Scripted(OBSERVED, second)
    log, _ = kept(model, [*MESSAGES, message("last", 0, "w " * 100, day=23)], message_tokens=40, previous_tokens=20)
    assert "The user bought a green bike" in model.asked[1]
    assert "moved to Porto" not in model.asked[1]
    assert log.observations[-1].message_ids == ("answer_2:0",)
    assert log.unobserved == ()


LONG = [message("t", index, f"Fact {index}. " + "x " * 40) for index in range(6)]
SIX = [tagged(f"- 🔴 10:0{index} Fact {index} " + "w" * 300 + f"{index} {{A1}}") for index in range(6)]


def test_a_reflection_keeps_the_union_and_what_it_drops_is_forgotten() -> None:
    reflected = tagged("# 2023-05-20", "- 🔴 10:00 Facts one and two {1 2}")
    log, keeper = kept(Scripted(*SIX[:3], reflected), LONG[:3], message_tokens=10, reflect_tokens=200)
    assert [(one.text, one.message_ids, one.condensed) for one in log.observations] == [
        ("🔴 10:00 Facts one and two", ("t:0", "t:1"), True)
    ]
    assert (log.forgotten, keeper.reflections, keeper.notes) == (("t:2",), 1, [])


def test_a_reflection_that_does_not_shrink_is_asked_for_more_and_then_kept_with_a_note() -> None:
    long, longer = (tagged("- 🔴 10:00 " + "w" * number + " {1}") for number in (900, 1000))
    short = tagged("- 🔴 10:00 short {1 2 3}")
    model = Scripted(*SIX[:3], longer, short)
    log, keeper = kept(model, LONG[:3], message_tokens=10, reflect_tokens=200)
    assert ([one.text for one in log.observations], keeper.notes) == (["🔴 10:00 short"], [])
    assert len({asked.rpartition("Condense it.")[2] for asked in model.asked[-2:]}) == 2
    model = Scripted(*SIX[:3], longer, long, longer, longer)
    log, keeper = kept(model, LONG[:3], message_tokens=10, reflect_tokens=200)
    assert (len(log.observations), len(model.requests), len(keeper.notes)) == (1, 7, 1)
    assert set(log.forgotten) == {"t:1", "t:2"}


def test_a_reply_that_repeats_itself_is_thrown_away_and_its_messages_stay_as_they_are() -> None:
    loop = tagged(*["- 🔴 10:00 The user likes long walks {A1}"] * 5)
    log, keeper = kept(Scripted(loop, loop), MESSAGES[:3], message_tokens=40)
    assert (log.observations, log.unobserved) == ((), ("answer_1:0", "answer_1:1", "filler:0"))
    assert len(keeper.notes) == 1
    log, keeper = kept(Scripted(loop, OBSERVED), MESSAGES[:3], message_tokens=40)
    assert (len(log.observations), log.unobserved, keeper.notes) == (2, (), [])


def test_a_reply_without_tags_gives_its_list_lines_and_prose_is_refused() -> None:
    assert [line.text for line in read_observations("Sure:\n* One {A1}\n2) Two\nThat is all.")] == ["One", "Two"]
    assert read_observations("<observations>\n</observations>") == []
    assert [line.text for line in read_observations("<observations>\n- One\n- Two is cu", is_cut=True)] == ["One"]
    with pytest.raises(UnusableReply):
        read_observations("There is nothing to say.")


def test_a_line_that_names_nothing_rests_on_the_whole_batch() -> None:
    log, _ = kept(Scripted(tagged("- 🔴 The user moved {Z9}")), MESSAGES[:3], message_tokens=40)
    (one,) = log.observations
    assert (one.message_ids, one.day) == (("answer_1:0", "answer_1:1", "filler:0"), date(2023, 5, 20))


def test_batches_hold_whole_threads_up_to_ten_thousand_tokens() -> None:
    sizes = {"a": 6_000, "b": 5_000, "c": 4_000, "d": 12_000}
    messages = [message(name, part, "x" * 4 * 1_000) for name, size in sizes.items() for part in range(size // 1_000)]
    found = batches(messages)
    assert [sorted({one.thread_id for one in batch}) for batch in found] == [["a"], ["b", "c"], ["d"], ["d"]]
    assert [one for batch in found for one in batch] == messages
    groups, left = waiting_groups(messages, LogSettings(message_tokens=10_000, scope="thread"))
    assert [{one.thread_id for one in group} for group in groups] == [{"d"}]
    assert len(left) == len(messages) - 11


def test_rules_observe_what_the_user_states() -> None:
    log = log_by_rules(MESSAGES[:3], LogSettings(message_tokens=40))
    assert [one.message_ids for one in log.observations] == [("answer_1:0",), ("filler:0",)]


# Through the whole harness, with a model behind HTTP.

CANARY = "GOLDEN CANARY"


def observe(body: dict[str, object]) -> str:
    asked = str(body["messages"])
    if "You keep a log" in asked:
        return tagged("# 2023-05-20", "- 🔴 02:21 The user's dog is called Rex {A1}")
    return "Rex"


def answered(folder: Path, server: ModelServer, *sets: str) -> RunFiles:
    dataset = load_dataset(folder / "d.json")
    folders, options = folders_in(folder), ModelOptions(api_base=server.url, max_attempts=1)
    memory = resolve_configuration("observational", sets)
    made = PrepareOptions(jobs=1, model_options=options, observer_model="openai/gpt-4o")
    prepare(dataset, [memory], options=made, folders=folders)
    chosen = RunOptions(run_id="r", model_options=options)
    run(dataset, memory, "openai/gpt-4o", options=chosen, folders=folders)
    return RunFiles(folders.results_dir / "r", look_into_prompts=True)


@pytest.mark.parametrize("retriever", ["none", "hybrid"])
def test_the_prompt_is_the_log_and_the_messages_not_yet_observed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retriever: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    write_dataset(tmp_path / "d.json", record(question="What is my dog called?", answer=CANARY))
    with ModelServer(observe) as server:
        files = answered(tmp_path, server, "message_tokens=8", f"retriever={retriever}")
        asked = [str(one.body) for one in server.chat_requests if "You keep a log" in str(one.body)]
    assert asked
    assert not any(hidden in text for text in asked for hidden in (CANARY, "called?", "answer_", "has_answer"))
    (answer,) = files.answers.values()
    (prompt,) = files.prompts_to(answer.question_id)
    text = prompt.messages[0].content
    assert text.index("# What is known about the user") < text.index("## 2023-05-20 (")
    assert "- 🔴 02:21 The user's dog is called Rex" in text
    assert set(answer.recall_ids)


def test_an_interrupted_observer_is_not_asked_again_for_what_it_has_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    sessions = [[{"role": "user", "content": f"Note {number}: " + "w " * 40}] for number in range(4)]
    ids = [f"s{number}" for number in range(4)]
    dates = [f"2023/05/2{number} (Sat) 02:21" for number in range(4)]
    one = record(haystack_sessions=sessions, haystack_session_ids=ids, haystack_dates=dates, answer_session_ids=["s0"])
    write_dataset(tmp_path / "d.json", one)
    with ModelServer(lambda body: tagged("- 🔴 02:21 A note {A1}")) as server:
        server.plan = lambda: 401 if len(server.chat_requests) == 3 else None
        with pytest.raises(HarnessError):
            answered(tmp_path, server, "message_tokens=10")
        answered(tmp_path, server, "message_tokens=10")
        observed = [one.raw for one in server.chat_requests if "You keep a log" in str(one.body)]
    assert (len(observed), len(set(observed))) == (5, 4)


def test_evidence_that_a_reflection_dropped_is_lost_there() -> None:
    gold = Gold("q", "single-session-user", "x", ("s",), ("s:1",), abstention=False)
    answer = Answer("q", "no", "ok", recall_ids=("s:0",), forgotten_ids=("s:1",))
    assert stage_of(gold, answer, stored=lambda name: True, disputed=False) == "lost at reflection"
