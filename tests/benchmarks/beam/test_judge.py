"""BEAM's judges: the known answers of the official functions, and their prompts byte for byte over HTTP."""

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longmemeval.benchmarks.beam.judge import verdict
from longmemeval.benchmarks.beam.loader import BeamDataset, BeamGold
from longmemeval.benchmarks.beam.scoring import Credit, aligned, nugget_score, question_score, same_event
from longmemeval.benchmarks.beam.wording import OFFICIAL, OWN_SHA256, official_wording, own_wording
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.files import sha256_bytes
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.answer.run import RunOptions, run
from longmemeval.pipeline.fixtures.prepare import PrepareOptions, prepare
from longmemeval.pipeline.grade.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.verify import verify
from longmemeval.records import Gold
from tests.conftest import SHARED_DATA, real_file
from tests.pipeline.helpers import MODEL, folders_in
from tests.server import ModelServer

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

    found = aligned(list(reference), "\n".join(lines), same)
    made = (found.precision, found.recall, found.f1, found.tau_norm, found.final_score)
    assert made == pytest.approx(figures, abs=1e-6, nan_ok=True)
    assert len(asked) == calls


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
    document = json.loads((SHARED_DATA.parent / "protocol" / "beam_judge_templates.json").read_bytes())
    return {name: one["text"] for name, one in document["templates"].items()}


def clone(folder: Path, texts: dict[str, str], nugget: str = "unified_llm_judge_base_prompt") -> Path:
    """What a checkout of the authors' code has of the judge's words; never run."""
    user = (
        texts["llm_equivalence.user"].replace("{first}", "{first_paragraph}").replace("{second}", "{second_paragraph}")
    )
    prompts = f"import langchain\nunified_llm_judge_base_prompt = {texts[nugget]!r}\n"
    code = f"raise SystemExit\ndef same(a, b):\n    return [{texts['llm_equivalence.system']!r}, f{user!r}]\n"
    for name, content in (("src/prompts.py", prompts), ("src/evaluation/compute_metrics.py", code)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


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


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123")
    with ModelServer(reply) as server:
        yield server


def reply(body: dict[str, Any]) -> str:
    """Half for a nugget about numbers; the first line of an answer is the first nugget, nothing else is the same."""
    said = body["messages"][-1]["content"]
    if len(body["messages"]) == 2:
        return "YES" if "LLM response should mention" in said else "NO"
    return json.dumps({"score": 0.5 if len(said) % 2 else 1.0, "reason": "r"})


def test_both_real_conversations_over_http(
    tmp_path: Path, texts: dict[str, str], server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = folders_in(tmp_path)
    data = tmp_path / "data-of-beam"
    monkeypatch.setenv("LONGMEMEVAL_DATA_DIR", str(data))
    clone(data / "beam", texts)
    dataset = load_dataset(real_file("beam/chats/100K"))
    assert isinstance(dataset, BeamDataset)
    prepare(dataset, ["bm25"], options=PrepareOptions(jobs=1), where=where)
    run(dataset, "bm25", MODEL, options=RunOptions(run_id="r"), where=where)
    reached = ModelOptions(api_base=server.url, max_attempts=1)
    found = {
        name: evaluate(
            "r", options=EvaluateOptions(judge=f"{name}@openai/gpt-4.1-mini", model_options=reached), where=where
        )
        for name in ("beam", "beam-paper")
    }
    code, paper = (found[name].metrics for name in ("beam", "beam-paper"))
    assert (code.judge.templates, paper.judge.templates) == ("beam", "beam-paper")
    assert not code.judge.official  # On the loopback: only OpenAI's own address is official.
    assert code.overall.not_evaluated == paper.overall.not_evaluated == 0
    assert code.overall.accuracy < paper.overall.accuracy
    assert code.by_type["event_ordering"].accuracy == paper.by_type["event_ordering"].accuracy
    nuggets = [one["messages"][0]["content"] for one in bodies(server) if len(one["messages"]) == 1]
    template = texts["unified_llm_judge_base_prompt"]
    said = {line["question_id"]: line["hypothesis"] for line in answers(where.results_dir / "r")}
    expected = {
        template.replace("<rubric_item>", nugget).replace("<llm_response>", said[question.question_id])
        for question in dataset.questions()
        for nugget in dataset.gold(question.question_id).rubric
    }
    assert set(nuggets) == expected
    assert len(expected) <= 92
    pairs = [one["messages"] for one in bodies(server) if len(one["messages"]) == 2]
    before, after = (
        texts["llm_equivalence.user"].split("{first}")[0],
        texts["llm_equivalence.user"].split("{second}")[1],
    )
    assert pairs
    for system, user in pairs:
        assert (system["role"], system["content"]) == ("system", texts["llm_equivalence.system"])
        assert user["content"].startswith(before)
        assert user["content"].endswith(after)
    assert verify("r", where=where).problems == ()
    monkeypatch.setenv("LONGMEMEVAL_DATA_DIR", str(tmp_path / "nothing"))
    server.responder = lambda body: "Hard to say."
    own = evaluate(
        "r", options=EvaluateOptions(judge="openai/gpt-4.1-mini", model_options=reached), where=where
    ).metrics
    assert own.judge.templates == "beam-own"
    assert own.overall.not_evaluated == 36


def bodies(server: ModelServer) -> list[dict[str, Any]]:
    return [request.body for request in server.chat_requests]


def answers(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]


def test_gold_of_other_benchmarks_is_refused() -> None:
    with pytest.raises(HarnessError, match="This judge grades BEAM"):
        verdict("paper", '{"nuggets": []}', Gold("q", "t", "a", (), (), False), "x")


def test_our_words_are_those_that_the_judge_is_named_by() -> None:
    assert sha256_bytes(msgspec.json.encode(own_wording(), order="sorted")) == OWN_SHA256
