"""What a question is searched by: rules for its time, a chat model, and what stands in for a model of no use."""

import asyncio
from datetime import date, datetime

import pytest

from longmemeval.errors import FatalModelError, ModelError
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.ranking.questions import (
    AnalysisMethod,
    QuestionAnalysis,
    analyse_by_model,
    analyse_by_rules,
)
from longmemeval.records import Question, Usage

ASKED = datetime(2023, 5, 30, 12)
TEXT = "Which came first, painting the bicycle or grilling the aubergine in April?"
QUESTION = Question("q1", TEXT, ASKED, "", "q1")
BOTH = AnalysisMethod(parts="model", time="model")
APRIL = (date(2023, 4, 1), date(2023, 4, 30))

Reply = str | Exception


class Model:
    """Replies to the question about parts and to the one about the time."""

    spec = "test/model"

    def __init__(self, parts: Reply = "[]", time: Reply = "null") -> None:
        self.replies = {"parts": parts, "time": time}
        self.asked: list[str] = []

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.asked.append("parts" if "search query" in request.messages[0].content else "time")
        reply = self.replies[self.asked[-1]]
        if isinstance(reply, Exception):
            raise reply
        return ChatReply(reply, "stop", Usage(calls=1, prompt_tokens=7))


def analyse(model: Model, method: AnalysisMethod = BOTH) -> QuestionAnalysis:
    return asyncio.run(analyse_by_model(model, QUESTION, method))


def days(analysis: QuestionAnalysis) -> tuple[date | None, date | None] | None:
    return (analysis.range.start, analysis.range.end) if analysis.range else None


def test_nobody_looks_for_anything_by_default() -> None:
    assert analyse_by_rules(QUESTION, AnalysisMethod()) == QuestionAnalysis((TEXT,))
    assert not AnalysisMethod().asks_model


def test_rules_find_what_is_looked_for() -> None:
    parts = analyse_by_rules(QUESTION, AnalysisMethod(parts="model"))
    assert (parts.queries, parts.range) == ((TEXT,), None)
    time = analyse_by_rules(QUESTION, AnalysisMethod(time="rules"))
    assert (time.queries, days(time)) == ((TEXT,), APRIL)


def test_a_model_finds_both_with_one_call_each() -> None:
    model = Model('["painting bicycle", "grilling aubergine"]', '{"start": "2023-04-03", "end": null}')
    found = analyse(model)
    assert found.queries == (TEXT, "painting bicycle", "grilling aubergine")
    assert days(found) == (date(2023, 4, 3), None)
    assert found.usage == Usage(calls=2, prompt_tokens=14)
    assert (found.notes, found.fell_back) == ((), False)


def test_a_model_that_finds_nothing_is_believed() -> None:
    assert analyse(Model()) == QuestionAnalysis((TEXT,), usage=Usage(calls=2, prompt_tokens=14))


def test_only_what_is_its_own_is_asked_of_a_model() -> None:
    model = Model()
    found = analyse(model, AnalysisMethod(time="model"))
    assert (model.asked, found.queries, found.range) == (["time"], (TEXT,), None)
    model = Model()
    found = analyse(model, AnalysisMethod(parts="model", time="rules"))
    assert (model.asked, found.queries, days(found)) == (["parts"], (TEXT,), APRIL)


@pytest.mark.parametrize("parts", ["I cannot.", ModelError("refused", fix="Ask again")])
def test_the_whole_question_is_searched_where_its_parts_did_not_come(parts: Reply) -> None:
    found = analyse(Model(parts, '{"start": null, "end": "2023-04-03"}'))
    assert found.queries == (TEXT,)
    assert days(found) == (None, date(2023, 4, 3))
    (note,) = found.notes
    assert note.startswith("the whole question is searched: the model's ")
    assert found.fell_back


@pytest.mark.parametrize("time", ["soon", ModelError("refused", fix="Ask again")])
def test_rules_stand_in_for_a_time_that_did_not_come(time: Reply) -> None:
    found = analyse(Model('["painting bicycle", "grilling aubergine"]', time))
    assert found.queries[1:] == ("painting bicycle", "grilling aubergine")
    assert days(found) == APRIL
    (note,) = found.notes
    assert note.startswith("the time by rules: the model's ")
    assert found.usage.calls == (1 if isinstance(time, ModelError) else 2)


def test_what_the_rules_could_not_use_is_noted_where_they_decide_and_only_there() -> None:
    twice = Question("q1", "Was it last March or in April?", ASKED, "", "q1")
    ruled = asyncio.run(analyse_by_model(Model(time="soon"), twice, AnalysisMethod(time="model")))
    assert [note.split(":")[0] for note in ruled.notes] == [
        "the question names more than one time",
        "the time by rules",
    ]
    asked = asyncio.run(analyse_by_model(Model(), twice, AnalysisMethod(time="model")))
    assert asked.notes == ()


def test_an_error_that_ends_everything_passes() -> None:
    with pytest.raises(FatalModelError):
        analyse(Model(FatalModelError("no key")))


def test_templates_of_what_a_model_is_asked_are_told() -> None:
    assert AnalysisMethod(time="rules").templates == {}
    assert set(AnalysisMethod(parts="model").templates) == {"decompose"}
    assert {len(digest) for digest in BOTH.templates.values()} == {64}
    assert len(set(BOTH.templates.values())) == 2
