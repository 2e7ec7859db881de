"""The judge of LoCoMo-Plus: prompts byte for byte, both readings of replies, and what it is called without its file."""

import asyncio
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from longmemeval.benchmarks.locomo_plus.benchmark import LOCOMO_PLUS
from longmemeval.benchmarks.locomo_plus.judge import official_credit, strict_label
from longmemeval.benchmarks.locomo_plus.loader import CUE_SESSION, LocomoPlusDataset
from longmemeval.benchmarks.locomo_plus.protocol import PROMPT_FILE
from longmemeval.benchmarks.registry import load_judge
from longmemeval.core.files import sha256_text
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.judges.protocol import Judge
from longmemeval.judges.template_set import is_official, judge_name, served_as_official
from longmemeval.judges.votes import recomputed
from longmemeval.records import Gold, Question
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.benchmarks.checking import MEMORIES, graded
from tests.benchmarks.locomo_plus.official import JUDGES, expecting, official_texts, prompt_file, prompts
from tests.conftest import real_file
from tests.models import Model

QUESTION = Question("h/q", "The bus was late.", datetime(2024, 1, 1), "1:00 pm on 1 January, 2024", "h")
GOLD = Gold("h/q", "cognitive", "EV", (), (), False, evidence_texts=("EV",))


@pytest.fixture(scope="module")
def templates() -> dict[str, str]:
    return official_texts()


@pytest.fixture
def official(templates: dict[str, str], folders: Folders, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The authors' file in the data folder."""
    monkeypatch.setenv("LONGMEMEVAL_DATA_DIR", str(folders.data_dir))
    folders.data_dir.mkdir()
    return prompt_file(folders.data_dir / PROMPT_FILE, templates)


def judge(spec: str = "openai/gpt-4o-mini") -> Judge:
    return load_judge(spec, Model, benchmark=LOCOMO_PLUS)


@pytest.mark.parametrize(
    ("reply", "credit", "strict"),
    [
        ('{"label": "correct", "reason": "x"}', 1, True),
        ('{"label":"partial"}', 0.5, None),
        ('{"reason": "r", "label": "partial"}', 0.5, None),
        ("{'label': 'wrong', 'reason': 'x'}", 0, None),
        ("partial", 0.5, None),
        ("incorrect", 1, None),
        ("The label is wrong, not correct", 1, None),
        ("[API Error: 401, Incorrect API key provided: no]", 1, None),
        ("[API Error: Connection error.]", 0, None),
        ("", 0, None),
        ("[]", 0, None),
        ('{"label": null}', 0, None),
        ('{"label": "Wrong", "reason": "not correct"}', 0, False),
        ('```json\n{"reason": "it\'s so", "label": "correct"}\n```', 1, True),
        ('{"label": "wrong"}', 0, False),
        ('{"label": "correct"} or {"label": "wrong"}', 1, None),
        ('{"label": "correct", "label": "wrong"}', 0, None),
        ('Sure: {"label": "correct", "reason": "uses {x}"} done', 1, True),
        ('{"label": "correct", "reason": "cut o', 1, None),
    ],
)
def test_replies_are_read_strictly_and_as_the_authors_do(reply: str, credit: float, strict: bool | None) -> None:
    assert official_credit(reply) == credit
    assert strict_label(reply) is strict


@pytest.mark.slow
def test_all_prompts_are_the_official_bytes(templates: dict[str, str], official: Path) -> None:
    dataset = LocomoPlusDataset(real_file("locomo_plus.json"))
    said = {number: f"Reply {number} {{so}}" for number in range(len(dataset))}
    in_process = judge()
    made = [
        asyncio.run(in_process.judge(question, dataset.gold(question.question_id), said[number])).prompt_sha256
        for number, question in enumerate(dataset.questions())
    ]
    expected = prompts(real_file("locomo_plus.json"), templates, said)
    assert made == [sha256_text(prompt) for prompt in expected.values()]


@pytest.mark.thorough
@pytest.mark.slow
def test_items_of_every_kind_over_http(
    templates: dict[str, str], official: Path, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request is the official one, and every score what the authors' code, or a strict reader, makes of replies.

    `scripts/benchmarks/official_judges.py` does the same with all 401.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123")
    items = real_file("locomo_plus.json")
    dataset = LocomoPlusDataset(items)
    chosen = Selection(question_ids=tuple(of_every_kind(dataset)))
    found = graded(dataset, JUDGES, expecting(items, templates), folders, selection=chosen)
    assert found.wrong == []
    assert found.requests == {"gpt-4o-mini": len(chosen.question_ids) * len(MEMORIES)}
    assert {missing for _, missing in found.scores.values()} > {0}


def of_every_kind(dataset: LocomoPlusDataset) -> set[str]:
    """A cue that nobody replies to, one that comes after the last session, one before the first, and one among them."""
    kinds = dict[tuple[int, bool, bool], str]()
    for item, question in zip(dataset.items, dataset.questions(), strict=True):
        sessions = [session.session_id for session in dataset.haystack(question.haystack_id).sessions]
        last = sessions[-1] == CUE_SESSION and item.gap_days is None
        kinds.setdefault((len(item.cue), sessions[0] == CUE_SESSION, last), question.question_id)
    return {*kinds.values()}


@pytest.mark.slow
def test_a_filled_prompt_is_the_one_hashed_outside_this_project(official: Path) -> None:
    judgement = asyncio.run(judge().judge(QUESTION, GOLD, "PRED"))
    assert judgement.prompt_sha256 == "e9d30d041a7474d26eaac9c661bfe94598c4a866bdc94f0330937249f87b55bf"
    # "yes" is no label.
    assert (judgement.label, judgement.error) == (None, "The judge's reply cannot be read (finish reason: stop)")


@pytest.mark.slow
def test_who_is_official(official: Path) -> None:
    strict, substring = judge().identity, judge("locomo-plus-substring@openai/gpt-4o-mini").identity
    assert [strict.official, is_official(strict)] == [True, True]
    assert [substring.official, is_official(substring)] == [False, False]
    assert not judge("openai/gpt-4o").identity.official
    assert judge("locomo-plus@openai/gpt-4o-mini").identity == judge("gpt-4o-mini").identity == strict
    assert strict.id != substring.id
    assert judge_name(strict) == "openai/gpt-4o-mini"
    assert judge_name(substring) == "openai/gpt-4o-mini, prompts: locomo-plus-substring"
    names = ("", "gpt-4o-mini", "gpt-4o-mini-2024-07-18", "gpt-4o-mini-search", "gpt-4o-2024-08-06")
    assert [served_as_official(strict, name) for name in names] == [True, True, True, False, False]


def test_labels_follow_again_from_what_is_stored(official: Path) -> None:
    stored = replace(asyncio.run(judge().judge(QUESTION, GOLD, "PRED")), raw="incorrect")
    for spec, label in (("openai/gpt-4o-mini", None), ("locomo-plus-substring@openai/gpt-4o-mini", True)):
        assert recomputed(judge(spec).identity, stored, QUESTION, GOLD, "PRED").label is label


def test_without_the_authors_file_the_wording_is_ours_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGMEMEVAL_DATA_DIR", str(tmp_path))
    ours = judge().identity
    assert (ours.templates, ours.official, is_official(ours)) == ("locomo-plus-own", False, False)
    assert judge_name(ours) == "openai/gpt-4o-mini, prompts: locomo-plus-own"
    assert ours == judge("locomo-plus-own@openai/gpt-4o-mini").identity
    with pytest.raises(HarnessError, match="cannot be read"):
        judge("locomo-plus-substring@openai/gpt-4o-mini")


@pytest.mark.parametrize("change", ["Judge", "two people"])
def test_changed_words_are_never_called_official(official: Path, change: str) -> None:
    official.write_text(official.read_text().replace(change, change.upper()))
    with pytest.raises(IntegrityError, match="does not have the official text"):
        judge()


def test_gold_without_texts_is_refused(official: Path) -> None:
    with pytest.raises(HarnessError, match="text of the evidence"):
        asyncio.run(judge().judge(QUESTION, replace(GOLD, evidence_texts=()), "PRED"))
