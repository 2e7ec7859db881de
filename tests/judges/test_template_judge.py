import asyncio
import re
from collections.abc import Iterator
from datetime import datetime

import pytest

from longmemeval.core.files import safe_name, sha256_text
from longmemeval.errors import FatalModelError, HarnessError
from longmemeval.judges.template_set import TemplateJudge, TemplateSet, load_template_set
from longmemeval.llm.options import ModelOptions
from longmemeval.llm.protocol import ChatModel, ChatReply, ChatRequest
from longmemeval.llm.registry import load_chat_model
from longmemeval.records import Gold, Judgement, Question, Usage
from tests.server import ModelServer, Refusal

QUESTION = Question("conv-26/q3", "When did we meet?", datetime(2023, 5, 30), "2023/05/30", "conv-26")
GOLD = Gold("conv-26/q3", "temporal", "7 May 2023", (), (), False)
STRICT = load_template_set("strict")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda body: "Yes.", served_model="judge-2026") as running:
        yield running


def model(server: ModelServer, spec: str = "openai/judge") -> ChatModel:
    return load_chat_model(spec, ModelOptions(server.url, timeout_s=10.0, max_attempts=2, max_wait_s=0.02))


def grade(server: ModelServer, templates: TemplateSet = STRICT, hypothesis: str = "In May") -> Judgement:
    return asyncio.run(TemplateJudge(templates, model(server)).judge(QUESTION, GOLD, hypothesis))


def test_the_prompt_of_the_set_is_what_is_sent(server: ModelServer) -> None:
    grade(server, hypothesis="On {answer}")
    (request,) = server.chat_requests
    prompt = STRICT.prompt(QUESTION, GOLD, "On {answer}")
    assert request.body["messages"] == [{"role": "user", "content": prompt}]
    assert (request.body["max_tokens"], request.body["temperature"]) == (STRICT.max_tokens, 0.0)


def test_a_judgement_records_the_call(server: ModelServer) -> None:
    server.faults.append(500)
    judgement = grade(server)
    assert (judgement.label, judgement.raw, judgement.error, judgement.score) == (True, "Yes.", "", None)
    assert judgement.judge_id == TemplateJudge(STRICT, model(server)).identity.id
    assert judgement.prompt_sha256 == sha256_text(STRICT.prompt(QUESTION, GOLD, "In May"))
    assert judgement.answer_sha256 == sha256_text("In May")
    assert (judgement.served_model, judgement.attempts, judgement.usage.calls) == ("judge-2026", 2, 1)
    assert (judgement.latency_ms or 0.0) > 0


@pytest.mark.parametrize(
    ("name", "reply", "label"),
    [
        ("strict", "no", False),
        ("convomem", "RIGHT", True),
        ("convomem", "Partly right: WRONG", False),
        ("lenient", '{"label": "CORRECT"}', True),
        ("lenient", '{"label": "WRONG"}', False),
    ],
)
def test_each_set_reads_replies_in_its_own_way(name: str, reply: str, label: bool, server: ModelServer) -> None:
    server.responder = lambda body: reply
    assert grade(server, load_template_set(name)).label is label


@pytest.mark.parametrize(
    ("reply", "error", "calls"),
    # An empty reply is tried again like a failure, and all attempts are paid for.
    [("Perhaps.", "cannot be read", 1), ("Yes or no?", "cannot be read", 1), ("\n ", "is empty", 2)],
)
def test_an_unreadable_reply_is_kept_and_not_evaluated(reply: str, error: str, calls: int, server: ModelServer) -> None:
    server.responder = lambda body: reply
    judgement = grade(server)
    assert (judgement.label, judgement.raw) == (None, reply)
    assert error in judgement.error
    assert "finish reason: stop" in judgement.error
    assert judgement.usage.calls == len(server.chat_requests) == calls


def test_a_failed_call_is_not_evaluated(server: ModelServer) -> None:
    server.faults.extend([503, 503])
    judgement = grade(server)
    assert (judgement.label, judgement.raw) == (None, "")
    assert "503" in judgement.error
    assert judgement.answer_sha256 == sha256_text("In May")


def test_a_hopeless_error_stops_the_run(server: ModelServer) -> None:
    server.faults.append(Refusal(401))
    with pytest.raises(FatalModelError):
        grade(server)


def test_data_without_evidence_texts_is_refused_before_a_call(server: ModelServer) -> None:
    several = Gold("conv-26/q3", "user-facts", "7 May 2023", (), (), False, facets={"evidence": 2})
    judge = TemplateJudge(load_template_set("convomem"), model(server))
    with pytest.raises(HarnessError, match="evidence"):
        asyncio.run(judge.judge(QUESTION, several, "In May"))
    assert server.chat_requests == []


class Named:
    """A model of which only the name matters."""

    def __init__(self, spec: str) -> None:
        self.spec = spec

    async def complete(self, request: ChatRequest) -> ChatReply:
        return ChatReply("yes", "stop", Usage(calls=1))


def test_judge_ids_are_readable_distinct_and_safe_as_file_names() -> None:
    specs = ["openai/gpt-4o-mini", "ollama/llama3.1:8b", "ollama/llama3.1-8b", "../../x", "Ünïcode " * 40]
    sets = [load_template_set(name) for name in ("convomem", "lenient", "strict")]
    ids = [TemplateJudge(templates, Named(spec)).identity.id for templates in sets for spec in specs]
    assert re.fullmatch(r"convomem-gpt-4o-mini-[0-9a-f]{8}", ids[0])
    assert re.fullmatch(r"lenient-ollama-llama3\.1-8b-[0-9a-f]{8}", ids[6])
    assert len(set(ids)) == len(sets) * len(specs)
    assert [safe_name(judge_id) for judge_id in ids] == ids


def test_a_judge_is_its_set_its_model_and_its_parameters() -> None:
    identity = TemplateJudge(STRICT, Named("openai/gpt-4o-2024-08-06")).identity
    assert (identity.templates, identity.templates_sha256) == ("strict", STRICT.sha256)
    assert identity.model == "openai/gpt-4o-2024-08-06"
    assert identity.parameters == {"max_tokens": 4096, "reply": "yes-no", "temperature": 0.0}
    assert (identity.official, identity.metric) == (False, "accuracy")
    changed = STRICT.model_copy(update={"templates": STRICT.templates | {"facts": "{question}{hypothesis}"}})
    assert TemplateJudge(changed, Named("openai/gpt-4o-2024-08-06")).identity.id != identity.id
