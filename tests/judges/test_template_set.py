import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.benchmarks.catalogue import benchmarks
from longmemeval.benchmarks.locomo.format import CATEGORIES
from longmemeval.benchmarks.longmemeval.loader import QUESTION_TYPES
from longmemeval.errors import HarnessError
from longmemeval.judges.definition import set_names
from longmemeval.judges.template_set import (
    READINGS,
    TemplateSet,
    choices,
    load_template_set,
    read_reply,
)
from longmemeval.records import Gold, Question

KNOWN = choices([one.types for one in benchmarks()])
SETS = ("convomem", "lenient", "strict")

CONTENT: dict[str, Any] = {
    "name": "mine",
    "source": "my notes",
    "reply": "yes-no",
    "max_tokens": 20,
    "templates": {
        "fact": "Q {question} A {answer} H {hypothesis}",
        "facts": "Q {question} E\n{evidence}\nH {hypothesis}",
        "refusal": "Refused? Q {question} H {hypothesis} as {{json}}",
    },
    "choose": {
        "default": "fact",
        "abstention": "refusal",
        "user-facts, several evidence": "facts",
        "preferences": "facts",
    },
}


def write(folder: Path, content: object, name: str = "set.json") -> str:
    path = folder / name
    path.write_text(yaml.safe_dump(content) if name.endswith("ml") else json.dumps(content), encoding="utf-8")
    return str(path)


def load(folder: Path, **changes: object) -> TemplateSet:
    return load_template_set(write(folder, CONTENT | changes), KNOWN)


def question(text: str = "What is my dog called?", appended: str = "", options: tuple[str, ...] = ()) -> Question:
    return Question("q7", text, datetime(2023, 5, 30), "2023/05/30", "h", appended, options)


def gold(
    question_type: str = "temporal",
    answer: str | int = "Rex",
    *,
    abstention: bool = False,
    evidence: tuple[str, ...] = (),
) -> Gold:
    facets = {"evidence": len(evidence)} if evidence else {}
    return Gold("q7", question_type, answer, (), (), abstention, evidence_texts=evidence, facets=facets)


def test_the_places_are_filled_in_one_pass(tmp_path: Path) -> None:
    prompt = load(tmp_path).prompt(question("Is {answer} {0}?"), gold(answer=18), "{question} %s {{}}")
    assert prompt == "Q Is {answer} {0}? A 18 H {question} %s {{}}"


@given(st.text(), st.text(), st.text())
def test_values_come_out_as_they_went_in(text: str, answer: str, hypothesis: str) -> None:
    templates = TemplateSet.model_validate(CONTENT)
    assert templates.prompt(question(text), gold(answer=answer), hypothesis) == f"Q {text} A {answer} H {hypothesis}"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (gold("temporal"), "Q What is my dog called? A Rex H He."),
        (gold("user-facts", evidence=("I own Rex.",)), "Q What is my dog called? A Rex H He."),
        (
            gold("user-facts", evidence=("I own Rex.", "A dog.")),
            "Q What is my dog called? E\nI own Rex.\nA dog.\nH He.",
        ),
        (gold("assistant-facts", evidence=("Rex.", "A dog.")), "Q What is my dog called? A Rex H He."),
        (gold("preferences", evidence=("Dogs.",)), "Q What is my dog called? E\nDogs.\nH He."),
        (gold("preferences", evidence=("Dogs.", "No cats.")), "Q What is my dog called? E\nDogs.\nNo cats.\nH He."),
        (gold("multi-session", abstention=True), "Refused? Q What is my dog called? H He. as {json}"),
        (
            gold("user-facts", abstention=True, evidence=("a", "b")),
            "Refused? Q What is my dog called? H He. as {json}",
        ),
    ],
)
def test_the_most_special_choice_counts(asked: Gold, expected: str, tmp_path: Path) -> None:
    assert load(tmp_path).prompt(question(), asked, "He.") == expected


def test_offered_options_are_part_of_the_question_and_hints_are_not(tmp_path: Path) -> None:
    templates = load(tmp_path)
    offered = question("Why?", " Choose: (a) X (b) Y.", ("X", "Y"))
    assert templates.prompt(offered, gold(), "(b)") == "Q Why? Choose: (a) X (b) Y. A Rex H (b)"
    assert templates.prompt(question("When?", " Use the dates."), gold(), "May") == "Q When? A Rex H May"


def test_a_template_that_shows_evidence_refuses_data_without_it(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"'facts' of the judge 'mine'.*question q7"):
        load(tmp_path).prompt(question(), gold("preferences"), "He.")


def test_json_and_yaml_are_one_set_and_notes_do_not_change_it(tmp_path: Path) -> None:
    original = load(tmp_path)
    assert load_template_set(write(tmp_path, CONTENT, "set.yaml")).sha256 == original.sha256
    assert load(tmp_path, name="other", source="", licence="MIT").sha256 == original.sha256
    reordered = dict(reversed(CONTENT.items())) | {"choose": dict(reversed(CONTENT["choose"].items()))}
    assert load_template_set(write(tmp_path, reordered)).sha256 == original.sha256


@pytest.mark.parametrize(
    "change",
    [
        {"reply": "right-wrong"},
        {"max_tokens": 21},
        {"temperature": 0.5},
        {"templates": CONTENT["templates"] | {"fact": "Q {question} A {answer} H {hypothesis}."}},
        {"choose": CONTENT["choose"] | {"temporal": "fact"}},
    ],
)
def test_all_that_decides_a_label_changes_the_hash(change: dict[str, Any], tmp_path: Path) -> None:
    assert load(tmp_path, **change).sha256 != load(tmp_path).sha256


def template(text: str) -> dict[str, Any]:
    return {"templates": CONTENT["templates"] | {"fact": text}}


def choice(key: str, name: str = "fact") -> dict[str, Any]:
    return {"choose": CONTENT["choose"] | {key: name}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            template("{question} {anwser} {hypothesis}"),
            r"unknown placeholder \{anwser\}.*template 'fact'.*mean 'answer'",
        ),
        (template("{question} {} {hypothesis}"), r"unknown placeholder \{\}"),
        (template("{question} {0} {hypothesis}"), r"unknown placeholder \{0\}"),
        (template("{question.text} {hypothesis}"), r"unknown placeholder \{question.text\}"),
        (template("{question!r} {question} {hypothesis}"), r"unknown placeholder \{question!r\}"),
        (template("{question:>9} {question} {hypothesis}"), r"unknown placeholder \{question:>9\}"),
        (template('{question} {hypothesis} {"label": 1}'), "Write {{ and }} for literal braces"),
        (template("{question} {hypothesis} }"), "cannot be parsed.*template 'fact'"),
        (template("{answer} {hypothesis}"), r"lacks \{question\}"),
        (template("{question} {answer}"), r"lacks \{hypothesis\}"),
        (template("{{question}} {hypothesis}"), r"lacks \{question\}"),
        (choice("temporal", "fcat"), "'temporal' chooses the template 'fcat', which does not exist.*mean 'fact'"),
        (choice("user-fact"), "Unknown question type 'user-fact'.*mean 'user-facts'"),
        (choice("temporal, several evidence"), "Unknown question type 'temporal, several evidence'"),
        ({"choose": {"abstention": "refusal"}}, "chosen for 'default'"),
        ({"choose": {"default": "fact"}}, "chosen for 'abstention'"),
        ({"choose": {"default": "fact", "abstention": "fact"}}, "template 'facts' is never chosen"),
        ({"reply": "yes/no"}, "cannot be read as 'yes/no'.*mean 'yes-no'"),
        ({"max_token": 5}, "no field 'max_token'.*mean 'max_tokens'"),
        ({"max_tokens": 0}, "'max_tokens' of the template set cannot be 0"),
        ({"max_tokens": "20"}, "'max_tokens' of the template set cannot be '20'"),
        ({"temperature": -1}, "'temperature' of the template set cannot be -1"),
        ({"templates": {"fact": 3}}, "'templates.fact' of the template set cannot be 3"),
        ({"name": "../x"}, r"'name' of the template set cannot be '\.\./x'"),
        ({"name": "strict"}, "'strict' belongs to a set that is shipped"),
        ({"name": "LongMemEval"}, "'LongMemEval' belongs to a set that is shipped"),
    ],
)
def test_a_faulty_set_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=message) as caught:
        load(tmp_path, **change)
    assert "set.json" in caught.value.where


@pytest.mark.parametrize("field", ["name", "reply", "max_tokens", "templates", "choose"])
def test_a_missing_field_is_named(field: str, tmp_path: Path) -> None:
    content = {key: value for key, value in CONTENT.items() if key != field}
    with pytest.raises(HarnessError, match=f"has no '{field}'"):
        load_template_set(write(tmp_path, content))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("set.json", b'{"name": ', "is not JSON"),
        ("set.json", b'{"name": "\xff"}', "is not JSON"),
        ("set.yaml", b"name: [", "is not YAML"),
        ("set.yaml", b"name: a\nreply: yes-no\nmax_tokens: many\n", "set.yaml, line 3: max_tokens"),
        ("set.yml", b"name: \xff", "is not YML"),
        ("set.json", b'["name"]', "not an object"),
        ("set.yaml", b"", "not an object"),
    ],
)
def test_an_unreadable_file_is_refused(name: str, data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(HarnessError, match=message):
        load_template_set(str(path))


def test_a_set_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="No such file"):
        load_template_set(str(tmp_path / "none.json"))
    with pytest.raises(HarnessError, match="Did you mean 'lenient'"):
        load_template_set("leniant")


@pytest.mark.parametrize(
    ("kind", "reply", "label"),
    [
        ("yes-no", "Yes.", True),
        ("yes-no", "**YES**", True),
        ("yes-no", "no", False),
        ("yes-no", "I do not know.", None),
        ("yes-no", "yesterday", None),
        ("yes-no", "Yes and no.", None),
        ("yes-no", "", None),
        ("right-wrong", "RIGHT", True),
        ("right-wrong", "That is right.", True),
        ("right-wrong", "Wrong!", False),
        ("right-wrong", "Right in part, so WRONG", False),
        ("right-wrong", "Correct", None),
        ("right-wrong", " \n", None),
        ("label-json", '{"label": "CORRECT"}', True),
        ("label-json", 'The dates agree.\n```json\n{\n  "label" : "correct"\n}\n```', True),
        ("label-json", '{"reason": "not correct", "label": "WRONG"}', False),
        ("label-json", '{"label": "CORRECT"} or {"label": "WRONG"}', None),
        ("label-json", '{"label": "INCORRECT"}', None),
        ("label-json", "CORRECT", None),
        ("label-json", "", None),
    ],
)
def test_the_reading_of_a_reply(kind: str, reply: str, label: bool | None) -> None:
    assert read_reply(kind, reply) is label


@given(st.sampled_from(sorted(READINGS)), st.text())
def test_any_reply_can_be_read(kind: str, reply: str) -> None:
    assert read_reply(kind, reply) in (True, False, None)


CONVOMEM_TYPES = (
    "user-facts",
    "assistant-facts",
    "changing-facts",
    "abstention",
    "preferences",
    "implicit-connections",
)
EVERY_TYPE = (*QUESTION_TYPES, *CATEGORIES.values(), "open abstention", *CONVOMEM_TYPES)


def test_the_shipped_sets() -> None:
    assert set_names() == [
        *("beam", "beam-own", "beam-own-paper", "beam-paper"),
        "convomem",
        "lenient",
        "locomo-plus",
        "locomo-plus-own",
        "locomo-plus-substring",
        "longmemeval",
        "strict",
    ]
    assert [load_template_set(name, KNOWN).name for name in SETS] == list(SETS)
    assert len({load_template_set(name).sha256 for name in SETS}) == 3


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("question_type", EVERY_TYPE)
def test_a_shipped_set_grades_every_type(name: str, question_type: str) -> None:
    unanswerable = question_type in ("adversarial", "open abstention", "abstention")
    prompt = load_template_set(name).prompt(
        question("Why {x}?"), gold(question_type, abstention=unanswerable), "Hm {y}"
    )
    assert "Why {x}?" in prompt
    assert "Hm {y}" in prompt
    assert "{question}" not in prompt


def shipped_prompt(name: str, asked: Gold) -> str:
    return load_template_set(name).prompt(question(), asked, "A poodle.")


def test_convomem_grades_as_its_authors_do() -> None:
    several = shipped_prompt("convomem", gold("user-facts", evidence=("I bought a dog.", "I call him Rex.")))
    assert "\nI bought a dog.\nI call him Rex.\n" in several
    assert "most of these messages" in several
    one = shipped_prompt("convomem", gold("user-facts", evidence=("I bought a dog.",)))
    assert "I bought a dog." not in one
    changing = gold("changing-facts", evidence=("I bought a dog.", "I sold the dog."))
    assert "right only in part is WRONG" in shipped_prompt("convomem", changing)
    rubrics = {shipped_prompt("convomem", gold(kind, "Names Rex.")) for kind in ("preferences", "implicit-connections")}
    assert len(rubrics) == 1
    assert "all of the criteria" in rubrics.pop()
    abstention = shipped_prompt("convomem", gold("abstention", "There is no information.", abstention=True))
    assert "There is no information." not in abstention
    assert "ask for clarification" in abstention


@pytest.mark.parametrize("name", ["lenient", "strict"])
def test_a_rubric_is_not_taken_for_an_answer(name: str) -> None:
    kinds = ("single-session-preference", "preferences", "implicit-connections", "user-facts", "temporal")
    longmemeval, *convomem, fact, temporal = [shipped_prompt(name, gold(kind, "Names Rex.")) for kind in kinds]
    assert convomem == [longmemeval, longmemeval]
    assert fact == temporal
    assert fact != longmemeval
