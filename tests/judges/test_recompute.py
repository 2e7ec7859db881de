import asyncio
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from longmemeval.benchmarks.longmemeval.benchmark import LONGMEMEVAL
from longmemeval.benchmarks.registry import load_judge
from longmemeval.errors import ModelError
from longmemeval.judges.people import imported_identity
from longmemeval.judges.protocol import Judge
from longmemeval.judges.votes import recomputed
from longmemeval.llm.protocol import ChatReply, ChatRequest
from longmemeval.records import Gold, Judgement, Question, Usage

QUESTION = Question("conv-26/q3", "What does Ann grow?", datetime(2023, 5, 30), "2023/05/30", "conv-26")
LOCOMO_GOLD = Gold("conv-26/q3", "multi-hop", "roses, tulips", (), (), False)
OFFICIAL_GOLD = Gold("conv-26/q3", "multi-session", "roses", (), (), False)
SET = """
name: mine
reply: label-json
max_tokens: 50
templates: {any: "{question} {hypothesis}"}
choose: {default: any, abstention: any}
"""


class Model:
    """Gives these replies in turn; None is a failed call."""

    spec = "openai/gpt-4o"

    def __init__(self, replies: Iterable[str | None]) -> None:
        self._replies = iter(replies)

    async def complete(self, request: ChatRequest) -> ChatReply:
        text = next(self._replies)
        if text is None:
            raise ModelError("content refused")
        return ChatReply(text, "stop", Usage(calls=1))


def load(spec: str, *replies: str | None) -> Judge:
    return load_judge(spec, lambda _: Model(replies), benchmark=LONGMEMEVAL, votes=max(1, len(replies)))


def graded(judge: Judge, gold: Gold, hypothesis: str = "tulips") -> Judgement:
    return asyncio.run(judge.judge(QUESTION, gold, hypothesis))


def again(judge: Judge, judgement: Judgement, gold: Gold, hypothesis: str = "tulips") -> Judgement:
    return recomputed(judge.identity, judgement, QUESTION, gold, hypothesis)


RULES = [
    ("offline/lexical", False, None),
    ("offline/locomo-f1", False, 0.5),
    ("offline/mem0-f1", False, pytest.approx(2 / 3)),
    ("offline/mem0-bleu1", False, pytest.approx(0.135335, abs=1e-6)),
]


@pytest.mark.parametrize(("spec", "label", "score"), RULES)
def test_rules_are_applied_again(spec: str, label: bool, score: float | None) -> None:
    judge = load(spec)
    judgement = graded(judge, LOCOMO_GOLD)
    assert (judgement.label, judgement.score) == (label, score)
    assert again(judge, judgement, LOCOMO_GOLD) == judgement
    forged = replace(judgement, label=not label, score=0.9)
    assert again(judge, forged, LOCOMO_GOLD) == judgement


def test_another_version_of_rules_cannot_be_applied() -> None:
    judge = load("offline/locomo-f1")
    forged = replace(graded(judge, LOCOMO_GOLD), score=0.9)
    older = replace(judge.identity, id="offline-locomo-f1-00000000")
    assert recomputed(older, forged, QUESTION, LOCOMO_GOLD, "tulips") == forged


@pytest.fixture
def own_set(tmp_path: Path) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(SET)
    return str(path)


REPLIES = [
    ("longmemeval", "Yes.", True),
    ("longmemeval", "no", False),
    ("longmemeval", "yesterday", True),
    ("longmemeval", " ", None),
    ("longmemeval", None, None),
    ("strict", "yes", True),
    ("strict", "yesterday", None),
    ("strict", None, None),
    ("convomem", "right or wrong", False),
    ("lenient", '{"label": "CORRECT"}', True),
    ("own", '{"label": "WRONG"}', False),
    ("own", "WRONG", None),
]


@pytest.mark.parametrize(("name", "reply", "label"), REPLIES)
def test_a_stored_reply_is_read_again(name: str, reply: str | None, label: bool | None, own_set: str) -> None:
    judge = load(f"{own_set if name == 'own' else name}@openai/gpt-4o", reply)
    judgement = graded(judge, OFFICIAL_GOLD)
    assert judgement.label is label
    # A set of the user's own is read without its file: the identity says how.
    Path(own_set).unlink()
    assert again(judge, judgement, OFFICIAL_GOLD) == judgement
    for forged in {True, False, None} - {label}:
        assert again(judge, replace(judgement, label=forged), OFFICIAL_GOLD) == judgement


@pytest.mark.parametrize("name", ["longmemeval", "strict"])
@pytest.mark.parametrize(
    ("replies", "label", "vote_labels"),
    [
        (("yes", "no", "Yes."), True, (True, False, True)),
        (("no", "yes", "no"), False, (False, True, False)),
        (("yes", None, "no"), None, (True, None, False)),
        (("yes", "", "yes"), True, (True, None, True)),
    ],
)
def test_votes_are_counted_again(
    name: str, replies: tuple[str | None, ...], label: bool | None, vote_labels: tuple[bool | None, ...]
) -> None:
    judge = load(f"{name}@openai/gpt-4o", *replies)
    judgement = graded(judge, OFFICIAL_GOLD)
    assert (judgement.label, judgement.vote_labels) == (label, vote_labels)
    assert again(judge, judgement, OFFICIAL_GOLD) == judgement
    forged = replace(judgement, label=not label, raw="3 of 3 right", vote_labels=(True, True, True))
    assert again(judge, forged, OFFICIAL_GOLD) == replace(judgement, raw="3 of 3 right")


@pytest.mark.parametrize("reply_kind", [None, "later-invention"])
def test_what_cannot_be_read_again_stays(reply_kind: str | None) -> None:
    imported = imported_identity("gpt-4o")
    identity = replace(imported, parameters=imported.parameters | {"reply": reply_kind})
    judgement = Judgement("conv-26/q3", True, "", identity.id, "", "")
    assert recomputed(identity, judgement, QUESTION, OFFICIAL_GOLD, "tulips") == judgement
