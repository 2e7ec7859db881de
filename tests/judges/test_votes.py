import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from threading import Barrier

import pytest

from longmemeval.benchmarks.longmemeval.judge import LongMemEvalJudge
from longmemeval.core.files import safe_name, sha256_text
from longmemeval.errors import FatalModelError, HarnessError, ModelError
from longmemeval.judges.template_set import TemplateJudge, first_of, load_template_set
from longmemeval.judges.votes import RepeatedJudge, VotingJudge, majority
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from longmemeval.records import Gold, Judgement, Question, Usage
from tests.server import ModelServer

QUESTION = Question("e47becba", "What degree did I take?", datetime(2023, 5, 30), "2023/05/30", "e47becba")
GOLD = Gold("e47becba", "single-session-user", "Business", (), (), False)


class Model:
    """Gives one outcome after the other."""

    spec = "openai/gpt-4o-2024-08-06"

    def __init__(self, outcomes: Sequence[str | Exception] = ()) -> None:
        self.calls = 0
        self._outcomes = outcomes

    async def complete(self, request: ChatRequest) -> ChatReply:
        outcome = self._outcomes[self.calls]
        self.calls += 1
        if isinstance(outcome, Exception):
            raise outcome
        usage = Usage(calls=1, prompt_tokens=100, completion_tokens=len(outcome))
        return ChatReply(outcome, "stop", usage, "gpt-4o-2024-08-06", attempts=2, latency_ms=100.0 * self.calls)


def judge(model: Model) -> TemplateJudge:
    return TemplateJudge(load_template_set("strict"), model)


def vote(*outcomes: str | Exception) -> Judgement:
    return asyncio.run(VotingJudge(judge(Model(outcomes)), len(outcomes)).judge(QUESTION, GOLD, "Business"))


def test_a_judgement_of_votes_records_them_all() -> None:
    single = asyncio.run(judge(Model(["yes"])).judge(QUESTION, GOLD, "Business"))
    assert vote("Yes.", "no", "yes") == Judgement(
        question_id="e47becba",
        label=True,
        raw="2 of 3 right",
        judge_id=VotingJudge(judge(Model()), 3).identity.id,
        prompt_sha256=single.prompt_sha256,
        answer_sha256=sha256_text("Business"),
        served_model="gpt-4o-2024-08-06",
        usage=Usage(calls=3, prompt_tokens=300, completion_tokens=9),
        attempts=6,
        latency_ms=300.0,
        votes=("Yes.", "no", "yes"),
        vote_labels=(True, False, True),
    )


@pytest.mark.parametrize(
    ("outcomes", "label", "raw"),
    [
        (("no", "no", "yes"), False, "1 of 3 right"),
        (("no", "no", "no", "yes", "yes"), False, "2 of 5 right"),
        (("yes", "perhaps", "yes"), True, "2 of 3 right, 1 without a label"),
        (("yes", "perhaps", "no"), None, "1 of 3 right, 1 without a label"),
        (("yes", "", ""), None, "1 of 3 right, 2 without a label"),
        (("no", ModelError("content refused"), "no"), False, "0 of 3 right, 1 without a label"),
    ],
)
def test_more_than_half_decide(outcomes: tuple[str | Exception, ...], label: bool | None, raw: str) -> None:
    judgement = vote(*outcomes)
    assert (judgement.label, judgement.raw) == (label, raw)
    assert bool(judgement.error) is (label is None)


def test_a_failed_vote_leaves_its_place_and_its_error() -> None:
    judgement = vote("yes", ModelError("content refused"), "no")
    assert judgement.votes == ("yes", "", "no")
    assert judgement.vote_labels == (True, None, False)
    assert judgement.error == "No majority: content refused."
    assert judgement.usage.calls == 2


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ((True,), True),
        ((False, False, True), False),
        ((True, None, None), None),
        ((True, False, None), None),
        ((None, None, None), None),
        ((), None),
    ],
)
def test_majority(labels: tuple[bool | None, ...], expected: bool | None) -> None:
    assert majority(labels) is expected


@pytest.mark.parametrize("votes", [-3, 0, 1, 2, 4])
def test_a_number_of_votes_without_a_majority_is_refused(votes: int) -> None:
    with pytest.raises(HarnessError, match="odd number"):
        VotingJudge(judge(Model()), votes)


def test_a_hopeless_error_stops_the_run() -> None:
    with pytest.raises(FatalModelError):
        vote("yes", FatalModelError("no key"), "yes")


def test_votes_and_repeats_are_judges_of_their_own() -> None:
    plain = LongMemEvalJudge(Model(), OWN_ENDPOINT)
    three, five = (VotingJudge(plain, votes) for votes in (3, 5))
    second, third = (RepeatedJudge(plain, repeat) for repeat in (2, 3))
    voted_again = RepeatedJudge(three, 2)
    judges = (plain, three, five, second, third, voted_again)
    ids = [one.identity.id for one in judges]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"longmemeval-gpt-4o-2024-08-06-[0-9a-f]{8}", one) for one in ids)
    assert [safe_name(one) for one in ids] == ids
    assert three.identity.parameters == plain.identity.parameters | {"votes": 3}
    assert voted_again.identity.parameters == plain.identity.parameters | {"votes": 3, "repeat": 2}
    # The official protocol asks once, and of several gradings the first counts.
    assert [one.identity.official for one in judges] == [True, False, False, False, False, False]
    assert [first_of(one.identity) for one in (second, third)] == [plain.identity] * 2
    assert first_of(voted_again.identity) == three.identity


def test_a_repeat_grades_as_the_judge_behind_under_its_own_id() -> None:
    plain = asyncio.run(judge(Model(["no"])).judge(QUESTION, GOLD, "Business"))
    again = asyncio.run(RepeatedJudge(judge(Model(["no"])), 2).judge(QUESTION, GOLD, "Business"))
    assert again.judge_id == RepeatedJudge(judge(Model()), 2).identity.id != plain.judge_id
    assert (again.label, again.raw, again.prompt_sha256) == (plain.label, plain.raw, plain.prompt_sha256)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def test_votes_are_asked_for_at_the_same_time(server: ModelServer) -> None:
    everybody = Barrier(3)

    def answer(body: object) -> str:
        # Breaks, and so fails the call, unless three requests are under way together.
        return json.dumps({"label": "CORRECT", "place": everybody.wait(timeout=200)})

    server.responder = answer
    model = load_chat_model("openai/judge", ModelOptions(server.url, timeout_s=120.0, max_attempts=1))
    judgement = asyncio.run(
        VotingJudge(TemplateJudge(load_template_set("lenient"), model), 3).judge(QUESTION, GOLD, "Business")
    )
    assert judgement.vote_labels == (True, True, True)
    assert len(set(judgement.votes)) == len(server.chat_requests) == 3


def test_a_hopeless_vote_ends_the_others(server: ModelServer) -> None:
    server.faults.extend(["slow:600", 401, "slow:600"])
    model = load_chat_model("openai/judge", ModelOptions(server.url, timeout_s=600.0, max_attempts=1))
    judge = VotingJudge(TemplateJudge(load_template_set("strict"), model), 3)

    async def within(seconds: float) -> Judgement:
        return await asyncio.wait_for(judge.judge(QUESTION, GOLD, "Business"), seconds)

    with pytest.raises(FatalModelError):
        asyncio.run(within(100.0))
