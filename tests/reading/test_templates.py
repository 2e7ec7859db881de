"""A user's own prompt: what is filled in, what is refused, and that nothing in a history can break it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longmemeval.core.files import sha256_text
from longmemeval.errors import HarnessError
from longmemeval.reading.templates import NOTE_FIELDS, READER_FIELDS, Template, load_template

VALUES = {"history": "H", "question_date": "D", "question": "Q"}


def own(folder: Path, text: str, fields: tuple[str, ...] = READER_FIELDS) -> Template:
    file = folder / "mine.txt"
    file.write_text(text, encoding="utf-8")
    return load_template("direct", file, fields)


@pytest.mark.parametrize(
    ("text", "prompt"),
    [
        ("{}|{}|{}", "H|D|Q"),
        ("{question} on {question_date}: {history} {question}", "Q on D: H Q"),
        ("{question} on {question_date}, without memory", "Q on D, without memory"),
        ('Reply as {{"answer": ""}}. {history}{question_date}{question}', 'Reply as {"answer": ""}. HDQ'),
    ],
)
def test_places_are_filled_by_name_or_in_order(tmp_path: Path, text: str, prompt: str) -> None:
    template = own(tmp_path, text)
    assert template.fill(VALUES) == prompt
    assert template.sha256 == sha256_text(text)


def test_note_template_has_four_places(tmp_path: Path) -> None:
    template = own(tmp_path, "{} {} {} {}", NOTE_FIELDS)
    assert template.fill({"session_date": "1", "session": "2", "question_date": "3", "question": "4"}) == "1 2 3 4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{history} {question}", r"does not show \{question_date\}"),
        ("{history} {question_date}", r"does not show \{question\}"),
        ("", "does not show"),
        ("{history} {question} {question_dat}", r"unknown placeholder 'question_dat' .*Did you mean 'question_date'\?"),
        ("{history} {question} {question_date} {question.text}", r"unknown placeholder 'question.text'"),
        ("{0} {1} {2}", "unknown placeholder '0'"),
        ("{} {}", "2 unnamed and 0 named placeholders"),
        (
            "{} {} {} {}",
            "4 unnamed and 0 named placeholders .* 3 unnamed ones for history, question_date, question in this",
        ),
        ("{} {} {} {history}", "3 unnamed and 1 named placeholders"),
        ("{} {question_date} {question}", "1 unnamed and 2 named placeholders"),
        ("{history} {question} {question_date", "cannot be parsed"),
        ("{history} } {question} {question_date}", "cannot be parsed"),
        ("{history:d} {question} {question_date}", "placeholder 'history' of the template specifies a format"),
        ("{history!x} {question} {question_date}", "placeholder 'history' of the template specifies a format"),
        ('{"history": {history}} {question} {question_date}', r"Write .*\{\{ and \}\}"),
    ],
)
def test_a_template_that_cannot_serve_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(HarnessError, match=message) as caught:
        own(tmp_path, text)
    assert caught.value.where == str(tmp_path / "mine.txt")


def test_unreadable_template_files_are_named(tmp_path: Path) -> None:
    latin = tmp_path / "latin.txt"
    latin.write_bytes("{history} {question_date} {question} caf\u00e9".encode("latin-1"))
    for file, message in (
        (tmp_path / "none.txt", "cannot be read: No such file"),
        (tmp_path, "cannot be read: Is a directory"),
        (latin, "not UTF-8"),
    ):
        with pytest.raises(HarnessError, match=message) as caught:
            load_template("direct", file, READER_FIELDS)
        assert caught.value.where == str(file)


@pytest.mark.parametrize(("name", "fields"), [("direct", READER_FIELDS), ("con", READER_FIELDS), ("note", NOTE_FIELDS)])
def test_shipped_templates_show_every_field_once(name: str, fields: tuple[str, ...]) -> None:
    prompt = load_template(name, None, fields).fill({field: f"<<{field}>>" for field in fields})
    assert all(prompt.count(f"<<{field}>>") == 1 for field in fields)
    assert "{" not in prompt


hostile = st.text(alphabet="{}%!:0aquestion_d\\\n", max_size=30)


@given(hostile, hostile)
def test_braces_in_history_and_question_stay_as_they_are(history: str, question: str) -> None:
    template = Template("[{}|{}|{}]", "", READER_FIELDS)
    filled = template.fill({"history": history, "question_date": "D", "question": question})
    assert filled == f"[{history}|D|{question}]"
