import asyncio
import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.longmemeval.judge import (
    DEFAULT_JUDGE,
    TEMPLATES_FILE,
    LongMemEvalJudge,
    load_templates,
    official_label,
    official_prompt,
)
from longmemeval.core.files import safe_name, sha256_text
from longmemeval.errors import FatalModelError, HarnessError, IntegrityError, ModelError, TransientModelError
from longmemeval.llm.http.endpoints import OWN_ENDPOINT
from longmemeval.llm.protocol import ChatMessage, ChatReply, ChatRequest
from longmemeval.records import Gold, Judgement, Question, Usage

OFFICIAL_HASHES = {
    "single-session-user": "fba020ba3d57982efdc9a937c1c01f897b789a608c7f88e60244121f6505e5bc",
    "single-session-assistant": "fba020ba3d57982efdc9a937c1c01f897b789a608c7f88e60244121f6505e5bc",
    "multi-session": "fba020ba3d57982efdc9a937c1c01f897b789a608c7f88e60244121f6505e5bc",
    "temporal-reasoning": "8d33a5fdd83afeeb4592454a965eab43d1fcb2dedc042d1d3892f4254be6c273",
    "knowledge-update": "183a9b3a6197ec620940f610cdc1207201ec98c1113dd633ea685cfc322fafac",
    "single-session-preference": "741ee3bcbea7ff5e8ed359acef61d2f8ded3de021bbcff6ee13de455f2e2aa9b",
    "abstention": "5c0b365a1e1d06db36377c735432b56e122ca3c428f89faf61d43a0d5a7e050b",
}

# The official templates filled by the official script's own line, hashed outside this project.
TEXT, ANSWER = "What degree did I graduate with?", "Business {0} 100% Administration"
HYPOTHESIS = "It was {hypothesis} %s."
RENDERED_HASHES = {
    "single-session-user": "63c413fef836abf6ad767a9c0894e7f0c9a2e5ed1fb0b46b53980b7a584b3677",
    "single-session-assistant": "63c413fef836abf6ad767a9c0894e7f0c9a2e5ed1fb0b46b53980b7a584b3677",
    "multi-session": "63c413fef836abf6ad767a9c0894e7f0c9a2e5ed1fb0b46b53980b7a584b3677",
    "temporal-reasoning": "0609f9e729c8572335d538400c2067a89ca77800bb8f03bc1b614dba3d95689e",
    "knowledge-update": "f543a21141d1c8bb7790a17dbd3610933e3ed84a27ce6243d8eaef4a4465eac3",
    "single-session-preference": "3466e78117d87e694648cf9abd7008bfcbbc956c29cca55cba912b65453f4dc8",
    "abstention": "2d5863d5eef63dfed0d279a4f813336ce74adfc39e1c8cc5ef01b72cf969d075",
}


class Model:
    """Answers every request with the same reply, or the same error, and keeps the requests."""

    def __init__(self, outcome: ChatReply | Exception, spec: str = "openai/gpt-4o-2024-08-06") -> None:
        self.spec = spec
        self.requests: list[ChatRequest] = []
        self._outcome = outcome

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome


def reply(text: str, finish_reason: str = "stop") -> ChatReply:
    return ChatReply(text, finish_reason, Usage(calls=1, prompt_tokens=120), "gpt-4o-2024-08-06", 2, 250.0)


def grade(outcome: ChatReply | Exception, hypothesis: str = "Business Administration.") -> Judgement:
    question = Question("e47becba", TEXT, datetime(2023, 5, 30, 23, 40), "2023/05/30 (Tue) 23:40", "e47becba")
    gold = Gold("e47becba", "single-session-user", "Business Administration", (), (), False)
    return asyncio.run(LongMemEvalJudge(Model(outcome)).judge(question, gold, hypothesis))


def test_templates_are_the_official_bytes() -> None:
    assert {kind: sha256_text(text) for kind, text in load_templates().items()} == OFFICIAL_HASHES


def test_the_licence_of_the_templates_comes_with_them() -> None:
    licence = json.loads(TEMPLATES_FILE.read_text())["licence"]
    assert "Copyright (c) 2024 Di Wu" in licence
    assert "The above copyright notice and this permission notice shall be included" in licence


@pytest.mark.parametrize(("kind", "expected"), RENDERED_HASHES.items())
def test_a_rendered_prompt_is_the_official_one(kind: str, expected: str) -> None:
    question_id, question_type = ("q_abs", "multi-session") if kind == "abstention" else ("q", kind)
    prompt = official_prompt(question_type, question_id, TEXT, ANSWER, HYPOTHESIS)
    assert sha256_text(prompt) == expected


def test_values_stay_as_they_are() -> None:
    prompt = official_prompt("temporal-reasoning", "q", "How many {} days?", 18, "{0} {answer} 50% %d {{}}")
    assert prompt.endswith(
        "is still correct. \n\nQuestion: How many {} days?\n\nCorrect Answer: 18\n\n"
        "Model Response: {0} {answer} 50% %d {{}}\n\nIs the model response correct? Answer yes or no only."
    )


@pytest.mark.parametrize("question_type", ["knowledge-update", "of-another-benchmark"])
def test_the_id_of_an_unanswerable_question_overrides_the_type(question_type: str) -> None:
    prompt = official_prompt(question_type, "gpt4_70e84552_abs", TEXT, "Never said.", "I do not know.")
    assert prompt.startswith("I will give you an unanswerable question")
    assert "\n\nExplanation: Never said.\n\n" in prompt


@pytest.mark.parametrize("question_type", ["temporal_reasoning", "abstention", ""])
def test_an_unknown_type_is_refused_with_the_nearest(question_type: str) -> None:
    with pytest.raises(HarnessError, match="temporal-reasoning") as caught:
        official_prompt(question_type, "q17", TEXT, ANSWER, HYPOTHESIS)
    assert "q17" in caught.value.where
    assert "abstention" not in caught.value.fix


@pytest.mark.parametrize(
    ("text", "expected"),
    [("yes", True), ("Yes, because", True), (" YES.\n", True), ("yesterday", True), ("No", False), ("Correct", False)],
)
def test_the_official_reading_of_a_reply(text: str, expected: bool) -> None:
    assert official_label(text) is expected
    assert grade(reply(text)).label is expected


def test_the_request_is_the_protocols() -> None:
    model = Model(reply("yes"))
    question = Question("q1_abs", TEXT, datetime(2023, 5, 30), "2023/05/30", "h")
    asyncio.run(LongMemEvalJudge(model).judge(question, Gold("q1_abs", "multi-session", 3, (), (), True), "None."))
    (request,) = model.requests
    assert request.messages == (ChatMessage("user", official_prompt("multi-session", "q1_abs", TEXT, 3, "None.")),)
    assert (request.max_tokens, request.temperature) == (10, 0.0)


def test_a_judgement_records_the_call() -> None:
    judgement = grade(reply("Yes."), "A café degree")
    assert judgement == Judgement(
        question_id="e47becba",
        label=True,
        raw="Yes.",
        judge_id=LongMemEvalJudge(Model(reply(""))).identity.id,
        prompt_sha256=sha256_text(
            official_prompt("single-session-user", "e47becba", TEXT, "Business Administration", "A café degree")
        ),
        answer_sha256=sha256_text("A café degree"),
        served_model="gpt-4o-2024-08-06",
        usage=Usage(calls=1, prompt_tokens=120),
        attempts=2,
        latency_ms=250.0,
    )


@pytest.mark.parametrize("error", [ModelError("content refused"), TransientModelError("429 for too long")])
def test_a_failed_call_is_not_evaluated(error: ModelError) -> None:
    judgement = grade(error)
    assert judgement.label is None
    assert error.what in judgement.error
    assert judgement.answer_sha256 == sha256_text("Business Administration.")


def test_a_hopeless_error_stops_the_run() -> None:
    with pytest.raises(FatalModelError):
        grade(FatalModelError("no key"))


def test_an_empty_reply_is_not_evaluated() -> None:
    judgement = grade(reply(" \n", finish_reason="length"))
    assert judgement.label is None
    assert "length" in judgement.error
    assert judgement.usage.calls == 1


@pytest.mark.parametrize(
    ("spec", "official"),
    [
        ("openai/gpt-4o-2024-08-06", True),
        ("gpt-4o-2024-08-06", True),
        ("openai/gpt-4o", False),
        ("gpt-4o-2024-11-20", False),
        ("azure/gpt-4o-2024-08-06", False),
        ("openrouter/openai/gpt-4o-2024-08-06", False),
        ("openai/gpt-4o-2024-08-06-mine", False),
        ("ollama/llama3.1:8b", False),
    ],
)
def test_only_the_official_model_is_official(spec: str, official: bool) -> None:
    assert LongMemEvalJudge(Model(reply("yes"), spec), OWN_ENDPOINT).identity.official is official


@pytest.mark.parametrize("endpoint", [None, "http://127.0.0.1:8000/v1", "https://api.openai.com.example.org/v1"])
def test_the_official_model_is_official_where_openai_serves_it_alone(endpoint: str | None) -> None:
    own, other = (
        LongMemEvalJudge(Model(reply("yes"), DEFAULT_JUDGE), one).identity for one in (OWN_ENDPOINT, endpoint)
    )
    assert (own.official, other.official) == (True, False)
    assert own.id != other.id


def test_judge_ids_are_readable_distinct_and_safe_as_file_names() -> None:
    specs = ["gpt-4o-2024-08-06", "gpt-4o-mini", "ollama/llama3.1:8b", "ollama/llama3.1-8b", "../../x", "Ünïcode " * 40]
    ids = [LongMemEvalJudge(Model(reply("yes"), spec)).identity.id for spec in specs]
    assert re.fullmatch(r"longmemeval-gpt-4o-2024-08-06-[0-9a-f]{8}", ids[0])
    assert re.fullmatch(r"longmemeval-ollama-llama3\.1-8b-[0-9a-f]{8}", ids[2])
    assert len(set(ids)) == len(specs)
    assert [safe_name(judge_id) for judge_id in ids] == ids


def test_the_same_judge_has_one_id() -> None:
    bare, full = (
        LongMemEvalJudge(Model(reply("yes"), spec)) for spec in ("gpt-4o-2024-08-06", "openai/gpt-4o-2024-08-06")
    )
    assert bare.identity == full.identity


def _change_a_text(file: dict[str, Any]) -> None:
    file["templates"]["temporal-reasoning"]["text"] += " "


def _change_a_text_and_its_hash(file: dict[str, Any]) -> None:
    template = file["templates"]["knowledge-update"]
    template["text"] += "\n"
    template["sha256"] = sha256_text(template["text"])
    template["utf8_bytes"] += 1


def _lose_a_template(file: dict[str, Any]) -> None:
    del file["templates"]["abstention"]


def _swap_two_names(file: dict[str, Any]) -> None:
    templates = file["templates"]
    first, second = "knowledge-update", "single-session-preference"
    templates[first], templates[second] = templates[second], templates[first]


def _lose_the_licence(file: dict[str, Any]) -> None:
    del file["licence"]


@pytest.mark.parametrize(
    "damage", [_change_a_text, _change_a_text_and_its_hash, _lose_a_template, _swap_two_names, _lose_the_licence]
)
def test_damaged_templates_are_refused(damage: Callable[[dict[str, Any]], None], tmp_path: Path) -> None:
    file = json.loads(TEMPLATES_FILE.read_text())
    damage(file)
    path = tmp_path / "templates.json"
    path.write_text(json.dumps(file))
    with pytest.raises(IntegrityError, match=r"templates\.json"):
        load_templates(path)


@pytest.mark.parametrize("content", [b"", b"{", b'{"source": "\xff"}', TEMPLATES_FILE.read_bytes()[:1000]])
def test_an_unreadable_template_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "templates.json"
    path.write_bytes(content)
    with pytest.raises(IntegrityError, match="cannot be read"):
        load_templates(path)
    with pytest.raises(IntegrityError, match="cannot be read"):
        load_templates(tmp_path / "none.json")
