"""PersonaMem: the real files against known answers, the authors' reading of letters, and controls."""

import csv
import hashlib
import json
from pathlib import Path

import pytest

from longmemeval.benchmarks.personamem.judge import is_right
from longmemeval.benchmarks.personamem.loader import (
    FIELDS,
    ContextTurn,
    PersonaMemDataset,
    PersonaMemQuirks,
    context_id_of,
    personamem_quirks,
)
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import DataError
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from tests.conftest import real_file
from tests.pipeline.helpers import folders_in

TURNS = (
    ContextTurn("system", "Current user persona: Ann"),
    ContextTurn("user", "User: I like tea."),
    ContextTurn("assistant", "Assistant: Tea is fine."),
    ContextTurn("system", "Current user persona: Ann"),
    ContextTurn("user", "User: I like milk now."),
    ContextTurn("assistant", "Assistant: So no tea."),
)
OPTIONS = ["(a) Have some tea.", "(b) Have some milk, as you like it now.", "(c) Have a beer.", "(d) Eat."]


def made(folder: Path, **changed: str) -> Path:
    """A folder of one context and one question put before the second session's last message."""
    folder.mkdir(exist_ok=True)
    context_id = context_id_of(TURNS)
    turns = [{"role": turn.role, "content": turn.content} for turn in TURNS]
    (folder / "shared_contexts_1k.jsonl").write_text(json.dumps({context_id: turns}) + "\n")
    row = dict.fromkeys(FIELDS, "0") | {
        "question_id": "q1",
        "question_type": "recall_user_shared_facts",
        "user_question_or_message": "What shall I drink?",
        "correct_answer": "(b)",
        "all_options": repr(OPTIONS),
        "shared_context_id": context_id,
        "end_index_in_shared_context": "5",
    }
    with (folder / "questions_1k.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerow(row | changed)
    return folder


@pytest.fixture(scope="module")
def real() -> PersonaMemDataset:
    dataset = load_dataset(real_file("personamem_32k"))
    assert isinstance(dataset, PersonaMemDataset)
    return dataset


def test_the_real_files_have_222_haystacks_of_20_personas(real: PersonaMemDataset) -> None:
    assert (len(real), len(list(real.haystacks())), len(set(real.units.values()))) == (589, 222, 20)
    assert personamem_quirks(real) == PersonaMemQuirks(
        personas=20,
        longest_option_is_right=304,
        longest_but_for_ideas_shortest=396,
        right_text_under_two_letters=17,
        repeated_rows=36,
        asked_in_the_history=64,
    )


def test_a_known_question(real: PersonaMemDataset) -> None:
    (question,) = (one for one in real.questions() if one.question_id.startswith("acd74206"))
    gold = real.gold(question.question_id)
    assert str(gold.answer).startswith("(c) It's great")
    assert gold.question_type == "recall_user_shared_facts"
    sessions = real.haystack(question.haystack_id).sessions
    assert [len(session.turns) for session in sessions] == [47, 31, 31, 45, 28]
    assert sum(len(session.turns) for session in sessions) == 182
    assert question.haystack_id == "e898d03fec68_182"


def test_nothing_after_the_cut_reaches_a_memory(real: PersonaMemDataset) -> None:
    contexts: dict[str, list[dict[str, str]]] = {}
    for line in real.files[1].read_text(encoding="utf-8").splitlines():
        contexts |= json.loads(line)
    for question in real.questions():
        row = real.rows[question.question_id]
        stored = [turn.content for session in real.haystack(question.haystack_id).sessions for turn in session.turns]
        before = [turn["content"] for turn in contexts[row.context_id][: row.end]]
        # Of a session that has only begun, its persona is dropped too.
        assert stored == before[: len(stored)]
        assert len(before) - len(stored) <= 1


def test_the_cut_and_the_persona(tmp_path: Path) -> None:
    dataset = load_dataset(made(tmp_path / "data"))
    (haystack,) = dataset.haystacks()
    assert [[turn.content for turn in session.turns] for session in haystack.sessions] == [
        ["Current user persona: Ann", "User: I like tea.", "Assistant: Tea is fine."],
        ["Current user persona: Ann", "User: I like milk now."],
    ]
    assert haystack.sessions[0].turns[0].speaker == "system"
    (question,) = dataset.questions()
    assert question.text == "What shall I drink?"
    assert question.appended.endswith("\n".join(OPTIONS))
    without = load_dataset(tmp_path / "data", persona=False)
    assert without.name == "data-without-persona"
    assert [len(session.turns) for one in without.haystacks() for session in one.sessions] == [2, 1]


def test_a_session_that_has_only_begun_is_dropped(tmp_path: Path) -> None:
    dataset = load_dataset(made(tmp_path / "data", end_index_in_shared_context="4"))
    (haystack,) = dataset.haystacks()
    assert len(haystack.sessions) == 1


def test_a_context_that_was_changed_is_refused(tmp_path: Path) -> None:
    folder = made(tmp_path / "data")
    contexts = folder / "shared_contexts_1k.jsonl"
    contexts.write_text(contexts.read_text().replace("tea", "gin"))
    with pytest.raises(DataError, match="does not match its id"):
        load_dataset(folder)


def test_the_id_of_a_context_is_the_authors_hash() -> None:
    told = "{'role': 'user', 'content': \"It's me\"} {'role': 'assistant', 'content': 'Yes'}"
    turns = (ContextTurn("user", "It's me"), ContextTurn("assistant", "Yes"))
    assert context_id_of(turns) == hashlib.sha256(told.encode()).hexdigest()


@pytest.mark.parametrize(
    ("reply", "right"),
    [
        ("<final_answer> (c)", True),
        ("c", True),
        ("C)", True),
        ("The answer is c.", True),
        ("option (C)", True),
        ("<final_answer> (c) It is a fine day", True),
        ("I like a and b. <final_answer>(c)</final_answer>", True),
        ("<final_answer></final_answer> (c)", True),
        ("(c) because (a) is wrong", False),
        ("<final_answer> c: a fine day", False),
        ("I think a good reply is C", False),
        ("(c) or (d)", False),
        ("", False),
    ],
)
def test_letters_are_read_as_the_authors_do(reply: str, right: bool) -> None:
    assert is_right(reply, "c") is right


@pytest.mark.slow
def test_the_longest_option_scores_what_the_reference_says(real: PersonaMemDataset, tmp_path: Path) -> None:
    folders = folders_in(tmp_path)
    prepare(real, ["none"], options=PrepareOptions(jobs=1), folders=folders)
    for model, right in (("offline/longest-option", 304), ("offline/refuse", 0)):
        run_id = model.partition("/")[2]
        run(real, "none", model, options=RunOptions(run_id=run_id), folders=folders)
        metrics = evaluate(run_id, options=EvaluateOptions(judge="offline/personamem"), folders=folders).metrics
        assert metrics.overall.correct == right
        assert metrics.haystacks == 20


@pytest.mark.slow
def test_the_longest_option_is_of_the_question_not_of_the_history(tmp_path: Path) -> None:
    data = made(tmp_path / "data", user_question_or_message="Which?\n(a) The longest line of all, but of no question.")
    folders, dataset = folders_in(tmp_path), load_dataset(data)
    prepare(dataset, ["full-history"], options=PrepareOptions(jobs=1), folders=folders)
    run(dataset, "full-history", "offline/longest-option", options=RunOptions(run_id="longest"), folders=folders)
    assert evaluate("longest", folders=folders).metrics.overall.correct == 1
