"""The texts of LoCoMo's protocol from a file: checked, hashed, told from the official ones."""

import json
from pathlib import Path

import pytest

from longmemeval.benchmarks.locomo import protocol as module
from longmemeval.benchmarks.locomo.format import NOT_MENTIONED
from longmemeval.benchmarks.locomo.protocol import (
    OFFICIAL_SHA256,
    ProtocolTexts,
    load_texts,
    protocol_record,
    recorded_texts,
    wording_note,
)
from longmemeval.core.files import sha256_text
from longmemeval.errors import HarnessError, IntegrityError

FILE = {
    "prompt": "\nAnswer in a few words.\n\nAsked: {} Answer:\n",
    "adversarial_prompt": "\nAnswer.\n\nAsked: {} Answer:\n",
    "date_hint": " Name a day.",
    "options": " Which? (a) {} (b) {}. ",
}


def write(path: Path, **changes: object) -> Path:
    path.write_text(json.dumps({name: text for name, text in (FILE | changes).items() if text is not None}))
    return path


@pytest.fixture
def given(tmp_path: Path) -> ProtocolTexts:
    return load_texts(write(tmp_path / "texts.json"))


def test_texts_are_read_as_the_official_code_writes_them(given: ProtocolTexts) -> None:
    assert given.prompt == "{history}\n\n\nAnswer in a few words.\n\nAsked: {question} Answer:\n"
    assert given.adversarial_prompt == "{history}\n\n\nAnswer.\n\nAsked: {question} Answer:\n"
    assert (given.date_hint, given.options) == ("Name a day.", "Which? (a) {} (b) {}. ")
    assert given.not_mentioned == NOT_MENTIONED


def test_yaml_and_named_places_give_the_same(tmp_path: Path, given: ProtocolTexts) -> None:
    file = tmp_path / "texts.yaml"
    file.write_text(
        'prompt: "{history}\\n\\n\\nAnswer in a few words.\\n\\nAsked: {question} Answer:\\n"\n'
        'adversarial_prompt: "\\nAnswer.\\n\\nAsked: {} Answer:\\n"\n'
        'date_hint: Name a day.\noptions: "Which? (a) {} (b) {}. "\n'
    )
    assert load_texts(file) == given
    assert load_texts(file).sha256 == given.sha256


def test_one_prompt_serves_both_kinds_of_questions(tmp_path: Path) -> None:
    texts = load_texts(write(tmp_path / "t.json", adversarial_prompt=None))
    assert texts.adversarial_prompt == texts.prompt


def test_braces_that_are_text_stay(tmp_path: Path) -> None:
    texts = load_texts(write(tmp_path / "t.json", prompt="{{}} as JSON. {} Answer:"))
    assert texts.prompt.format(history="H", question="Q?") == "H\n\n{} as JSON. Q? Answer:"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"prompt": None}, "has no 'prompt'"),
        ({"options": None}, "has no 'options'"),
        ({"prompt": "Answer."}, "lacks {history}"),
        ({"prompt": "{history} Answer."}, "lacks {question}"),
        ({"prompt": "{history} {qestion}"}, r"unknown placeholder 'qestion'.*question"),
        ({"prompt": "{} {}"}, "unknown placeholder ''"),
        ({"prompt": "{question!r} {history}"}, "unknown placeholder 'question!r'"),
        ({"prompt": "{history {question}"}, "cannot be parsed|unknown placeholder"),
        ({"adversarial_prompt": "no place"}, "adversarial_prompt"),
        ({"date_hint": 7}, "'date_hint' of the template is not a text"),
        ({"options": "{} or {}"}, r"not offered as \(a\) and \(b\)"),
        ({"options": "(b) {} (a) {}"}, r"not offered as \(a\) and \(b\)"),
        ({"options": "(a) {} (b)"}, r"not offered as \(a\) and \(b\)"),
        ({"not_mentioned": "I do not know"}, "scored as wrong.*not mentioned"),
        ({"date_hnt": "x"}, r"no field 'date_hnt'.*date_hint"),
    ],
)
def test_bad_texts_are_refused(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    with pytest.raises(HarnessError, match=problem) as caught:
        load_texts(write(tmp_path / "t.json", **changes))
    assert "t.json" in caught.value.where
    assert caught.value.fix


@pytest.mark.parametrize(("name", "content"), [("t.json", "{"), ("t.yaml", "a: [b"), ("t.json", "[1]"), ("t.yaml", "")])
def test_files_that_are_none_are_refused(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(HarnessError, match=r"cannot be read|is not an object") as caught:
        load_texts(tmp_path / name)
    assert caught.value.exit_code == 2


def test_a_manifest_keeps_the_texts_and_notices_a_change(given: ProtocolTexts) -> None:
    record = protocol_record(7, given)
    assert (record["name"], record["seed"]) == ("official", 7)
    assert recorded_texts(json.loads(json.dumps(record))) == given
    with pytest.raises(IntegrityError, match="not those of the run") as caught:
        recorded_texts(record | {"texts": record["texts"] | {"date_hint": "Name a year."}})
    assert caught.value.exit_code == 3
    with pytest.raises(IntegrityError, match="damaged"):
        recorded_texts(record | {"texts": {"prompt": 1}})


def test_our_own_words_are_not_recorded_so_that_begun_runs_go_on() -> None:
    assert protocol_record(0, None) == {"name": "official", "seed": 0}
    assert recorded_texts({"name": "official", "seed": 0}) is None


def test_what_is_said_of_a_score(given: ProtocolTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = wording_note(protocol_record(0, None), official_metric=True)
    assert "official metric, our prompts, not comparable with published figures" in ours
    unofficial = wording_note(protocol_record(0, None), official_metric=False)
    assert "our prompts" in unofficial
    assert "official metric" not in unofficial
    other = wording_note(protocol_record(0, given), official_metric=True)
    assert "not the official ones, not comparable with published figures" in other
    assert wording_note({}, official_metric=True) == ""
    # As if these were the official ones.
    digests = {name: sha256_text(getattr(given, name)) for name in OFFICIAL_SHA256}
    monkeypatch.setattr(module, "OFFICIAL_SHA256", digests)
    official = wording_note(protocol_record(0, given), official_metric=True)
    assert "the official prompt texts" in official
    assert "our prompts" not in official
    assert "not comparable" not in official


def test_one_text_of_five_makes_them_others(given: ProtocolTexts, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not given.official
    digests = {name: sha256_text(getattr(given, name)) for name in OFFICIAL_SHA256}
    monkeypatch.setattr(module, "OFFICIAL_SHA256", digests)
    assert given.official
    monkeypatch.setattr(module, "OFFICIAL_SHA256", digests | {"options": sha256_text("(a) {} (b) {}")})
    assert not given.official


def test_the_right_option_is_the_official_one() -> None:
    assert OFFICIAL_SHA256["not_mentioned"] == sha256_text(NOT_MENTIONED)
