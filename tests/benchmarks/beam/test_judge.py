"""BEAM's judges: the known answers of the official functions, and their prompts byte for byte over HTTP."""

import hashlib
import json
import math
from pathlib import Path

import msgspec
import pytest

from longmemeval.benchmarks.beam.judge import (
    Alignment,
    Credit,
    event_ordering,
    nugget_score,
    question_score,
    same_event,
    verdict,
)
from longmemeval.benchmarks.beam.loader import BeamGold
from longmemeval.benchmarks.beam.protocol import OFFICIAL, OWN_SHA256, official_wording, own_wording
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.core.files import sha256_bytes
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.records import Gold
from longmemeval.results.selection import Selection
from tests.benchmarks.beam.files import batch, conversation, probe
from tests.benchmarks.beam.official import JUDGES, clone, expecting, official_texts
from tests.benchmarks.checking import MEMORIES, graded
from tests.conftest import real_file
from tests.pipeline.helpers import folders_in
from tests.server import ModelServer
from tests.support import ROOT, json_lines

VECTORS: list[tuple[str, list[str], tuple[float, ...], int]] = [
    ("ABC", list("ABC"), (1, 1, 1, 1, 1), 3),
    ("ABC", list("CBA"), (1, 1, 1, 0, 0), 6),
    ("ABC", list("ACB"), (1, 1, 1, 0.666667, 0.666667), 4),
    ("ABCD", list("AB"), (1, 0.5, 0.666667, 0.956435, 0.637624), 2),
    ("ABCD", list("BA"), (1, 0.5, 0.666667, 0.773861, 0.515908), 3),
    ("ABC", list("ABCx"), (0.75, 1, 0.857143, 1, 0.857143), 3),
    ("ABC", list("xABC"), (0.75, 1, 0.857143, 0.5, 0.428571), 6),
    ("ABC", ["A", "", "B", "", "C"], (0.6, 1, 0.75, 0.833333, 0.625), 6),
    ("ABC", ["Here:", "", "A", "B", "C"], (0.6, 1, 0.75, 0.341886, 0.256415), 9),
    ("ABC", list("xyz"), (0, 0, 0, 0.125, 0), 9),
    ("ABC", ["x"], (0, 0, 0, 0.146447, 0), 3),
    ("ABC", ["A, B, C"], (0, 0, 0, 0.146447, 0), 3),
    ("ABC", [""], (0, 0, 0, 0.146447, 0), 3),
    ("ABC", ["A"], (1, 0.333333, 0.5, 0.908248, 0.454124), 1),
    ("ABC", ["C"], (1, 0.333333, 0.5, 0.091752, 0.045876), 3),
    ("A", ["A"], (1, 1, 1, math.nan, math.nan), 1),
    ("A", ["x"], (0, 0, 0, 0, 0), 1),
    ("ABC", list("AABC"), (1, 1, 1, 1, 1), 5),
    ("AAB", list("ABA"), (1, 1, 1, 0, 0), 4),
    ("ABCDE", list("ABDCE"), (1, 1, 1, 0.9, 0.9), 6),
    ("ABCDE", list("EDC"), (1, 0.6, 0.75, 0.025658, 0.019244), 12),
    ("ABC", ["a ", "b", "c"], (1, 1, 1, 1, 1), 3),
]


@pytest.mark.parametrize(("reference", "lines", "figures", "calls"), VECTORS)
def test_event_ordering_as_the_official_code_scores_it(
    reference: str, lines: list[str], figures: tuple[float, ...], calls: int
) -> None:
    asked = []

    def same(nugget: str, line: str) -> bool:
        asked.append((nugget, line))
        return nugget.strip().lower() == line.strip().lower()

    alignment = Alignment(list(reference), "\n".join(lines))
    while pair := alignment.pair():
        alignment.record(same(*pair))
    found = alignment.ordering()
    made = (found.precision, found.recall, found.f1, found.tau_norm, found.final_score)
    assert made == pytest.approx(figures, abs=1e-6, nan_ok=True)
    assert len(asked) == calls


@pytest.mark.parametrize(
    ("nuggets", "empty", "first", "heading"),
    [(3, 0.146, 0.908, 0.5), (4, 0.184, 0.854, 0.6), (5, 0.211, 0.816, 0.667), (6, 0.233, 0.789, 0.714)],
)
def test_what_order_gives_a_refusal_depends_on_the_number_of_nuggets(
    nuggets: int, empty: float, first: float, heading: float
) -> None:
    """The table of docs/beam.md."""
    rubric = list("ABCDEF"[:nuggets])
    answers = ([""], rubric[:1], ["Here:", *rubric])
    found = [event_ordering(rubric, lines).tau_norm for lines in answers]
    assert found == pytest.approx([empty, first, heading], abs=5e-4)
    row = f"| {nuggets} | " + " | ".join(f"{one:.3f}"[1:] for one in found) + " |"
    assert row in (ROOT / "docs" / "beam.md").read_text(encoding="utf-8")


REPLIES: list[tuple[str, float | None, float | None]] = [
    ('{"score": 0.5, "reason": "r"}', 0, 0.5),
    ('```json\n{"score": 1.0}\n```', 1, 1),
    ('Sure: {"score": 0, "reason": "r"} done', 0, 0),
    ('x {"score": 1.0, "reason": "uses {x} braces"} y', 1, 1),
    ('{"score": 1.0, "reason": "say "hi" now"}', 1, 1),
    ('{"score": 1.0 "reason": "r"}', 1, 1),
    ("no json", None, None),
    ('{"score": null}', None, None),
    ('[{"score":1}]', None, None),
    ('{"score": [1.0]}', None, None),
    ('{"Score": 1}', None, None),
    ('{"score": "0.5"}', None, 0.5),
    ('{"score": 2}', None, None),
    ("", None, None),
    # What json_repair, which the official code calls, makes of other quotes than JSON's (0.64.6).
    ("{'score': 1.0, 'reason': 'r'}", 1, 1),
    ("""{'score': 0.5, 'reason': "it's"}""", 0, 0.5),
    ("Sure: {'score': 0.0, 'reason': 'r'} done", 0, 0),
    ("{'score': 1.0, 'reason': 'it's so'}", 1, 1),
    ("{'reason': 'r', 'score': 0.5", 0, 0.5),
    ("""{"reason": "a", 'score': 1.0}""", 1, 1),
    ("""{"reason": "the 'score': 0 is not", 'score': 1.0}""", 1, 1),
    ("""{'reason': "no, 'score': 0 is not", 'score': 1.0}""", 1, 1),
    ("{'score': '1'}", 1, 1),
    ("{'score': '0.5'}", None, 0.5),
    ("{score: 1, reason: none}", 1, 1),
    ("{\u201cscore\u201d: 1.0, \u201creason\u201d: \u201cr\u201d}", 1, 1),
    ("{'score': None}", None, None),
    ("{'Score': 1}", None, None),
    ("{'score': [1.0]}", None, None),
    ("{'score': -1}", None, None),
    ("{'score': 'one'}", None, None),
]


@pytest.mark.parametrize(("reply", "code", "paper"), REPLIES)
def test_the_score_in_a_reply(reply: str, code: float | None, paper: float | None) -> None:
    assert nugget_score(reply, "official-code") == code
    assert nugget_score(reply, "paper") == paper


@pytest.mark.parametrize(
    ("scores", "code", "paper"),
    [
        ([1.0, 0.5, 0.0], 0.333333, 0.5),
        ([0.5, 0.5], 0, 0.5),
        ([1.0, 0.5], 0.5, 0.75),
        ([0.9], 0, 0.9),
        ([2], None, None),
        (["0.5"], None, 0.5),
    ],
)
def test_the_score_of_a_question(scores: list[object], code: float | None, paper: float | None) -> None:
    """Of a 2 the official code makes 2.0, at "0.5" it ends; here neither is a score."""
    gold = BeamGold("q", "summarization", "a", (), (), False, rubric=("n",) * len(scores))
    raw = json.dumps({"nuggets": [json.dumps({"score": one}) for one in scores]})
    expected: dict[Credit, float | None] = {"official-code": code, "paper": paper}
    for credit, score in expected.items():
        found = verdict(credit, raw, gold, "said")
        assert found.score == (None if score is None else pytest.approx(score, abs=1e-6))
        assert found.label is (None if score is None else score == 1)
    assert question_score([1.0, 0.5, 0.0]) == 0.5


@pytest.mark.parametrize(
    ("reply", "same"),
    [("YES", True), ("Yes.", True), ("NO, not YES", True), ("Yesterday is not", True), ("NO", False), ("", False)],
)
def test_equivalence_replies(reply: str, same: bool) -> None:
    assert same_event(reply) is same


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    real_file("beam/chats/100K")
    return official_texts()


def test_official_words_are_known_by_their_hashes(tmp_path: Path, texts: dict[str, str]) -> None:
    assert official_wording(tmp_path) is None
    words = official_wording(clone(tmp_path / "a", texts))
    assert words is not None
    sent = words.about_nugget("RUB", "RESP <rubric_item> <question>")
    expected = "8937704f47501d8c390558d84296d6011f992b9b9391b71b57ae275b9f7f742f"
    assert hashlib.sha256(sent.encode()).hexdigest() == expected
    assert words.about_pair("{second}", "B") == texts["llm_equivalence.user"].replace("{second}", "B").replace(
        "{first}", "{second}"
    )
    with pytest.raises(IntegrityError, match=r"nugget \(the prompt is that of the later commit b2da22e\)"):
        official_wording(clone(tmp_path / "b", texts, "unified_llm_judge_base_prompt@b2da22e"))
    assert set(OFFICIAL) == {"nugget", "same_system", "same_user"}


@pytest.mark.thorough
@pytest.mark.slow
def test_both_real_conversations_over_http(
    tmp_path: Path, texts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request is the official one, and every score what the authors' code makes of the replies.

    `scripts/benchmarks/official_judges.py` does the same with all 40 questions.
    """
    folders, chats = folders_in(tmp_path), real_file("beam/chats/100K")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123")
    clone(folders.data_dir / "beam", texts)
    dataset = load_dataset(chats)
    found = graded(dataset, JUDGES, expecting(chats, texts), folders, selection=Selection(sample=20))
    assert found.wrong == []
    assert len(found.scores) == len(MEMORIES) * len(JUDGES)
    (again,) = (folders.results_dir / "beam-100K-bm25" / "judgements").glob("beam-paper*.jsonl")
    usages = [line["usage"] for line in json_lines(again)]
    assert sum(one["calls"] for one in usages) == sum(one["cached_calls"] for one in usages) > 20
    # On the loopback: only OpenAI's own address is official.
    assert found.official == set()
    elsewhere = folders.model_copy(update={"data_dir": tmp_path / "nothing"})
    with ModelServer(lambda body: "Hard to say.") as server:
        options = EvaluateOptions(judge="openai/gpt-4.1-mini", model_options=ModelOptions(api_base=server.url))
        own = evaluate("beam-100K-bm25", options=options, folders=elsewhere).metrics
    assert own.judge.templates == "beam-own"
    assert own.overall.not_evaluated == 18


@pytest.mark.slow
def test_replies_before_a_failed_call_are_counted_as_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123")
    folders = folders_in(tmp_path)
    talk = [batch(0, "March-15-2024", "I moved to Oslo.", "And then?", "I found work.", "Good.")]
    conversation(tmp_path / "100K" / "1", talk, {"event_ordering": [probe("event_ordering", ["Oslo", "work"])]})
    dataset = load_dataset(tmp_path / "100K")
    prepare(dataset, ["bm25"], folders=folders)
    run(dataset, "bm25", "offline/extractive", options=RunOptions(run_id="r"), folders=folders)
    with ModelServer(lambda body: '{"score": 1.0, "reason": "r"}') as server:
        options = EvaluateOptions(
            judge="beam@openai/gpt-4.1-mini", model_options=ModelOptions(api_base=server.url, max_attempts=1)
        )
        for paid_for in (1, 3):
            server.faults.extend(["slow:0"] * paid_for)
            server.plan = lambda: 400
            assert evaluate("r", options=options, folders=folders).metrics.overall.not_evaluated == 1
        server.plan = lambda: None
        graded_at_last = evaluate("r", options=options, folders=folders).metrics
    (file,) = (folders.results_dir / "r" / "judgements").glob("*.jsonl")
    judged = json_lines(file)
    assert graded_at_last.overall.not_evaluated == 0
    assert [(one["label"], one["raw"] != "", one["usage"]["calls"]) for one in judged[:2]] == [
        (None, False, 1),
        (None, False, 3),
    ]
    assert all("refused on purpose" in one["error"] for one in judged[:2])
    assert [one["attempts"] for one in judged] == [one["usage"]["calls"] for one in judged]
    answered = len(server.chat_requests) - 2
    assert graded_at_last.usage.calls == answered == sum(one["usage"]["calls"] for one in judged)
    assert verify("r", folders=folders).problems == ()


def test_gold_of_other_benchmarks_is_refused() -> None:
    with pytest.raises(HarnessError, match="This judge grades BEAM"):
        verdict("paper", '{"nuggets": []}', Gold("q", "t", "a", (), (), False), "x")


def test_our_words_are_those_that_the_judge_is_named_by() -> None:
    assert sha256_bytes(msgspec.json.encode(own_wording(), order="sorted")) == OWN_SHA256
