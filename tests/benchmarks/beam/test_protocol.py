"""`run --protocol official` for BEAM: both forms byte for byte, deviations told, nothing without the words."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.beam.benchmark import MAX_TOKENS
from longmemeval.benchmarks.beam.loader import BeamDataset
from longmemeval.benchmarks.beam.protocol import DEVIATIONS, LONG_CONTEXT, RAG, compose, protocol_record
from longmemeval.errors import IntegrityError
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.records import Recall, RecalledItem
from longmemeval.report.write import ReportOptions, render_report
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.benchmarks.beam.official import clone, official_texts
from tests.conftest import real_file
from tests.pipeline.helpers import MODEL, folders_in
from tests.server import ModelServer

ASKED = ("100K-5/abstention/0", "100K-5/abstention/1", "100K-5/knowledge_update/0")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    real_file("beam/chats/100K")
    return official_texts()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123")
    with ModelServer(lambda body: "Two weeks.") as server:
        yield server


@pytest.fixture
def dataset() -> BeamDataset:
    return BeamDataset(real_file("beam/chats/100K/5"))


@pytest.fixture
def folders(tmp_path: Path, texts: dict[str, str], dataset: BeamDataset) -> Folders:
    folders = folders_in(tmp_path)
    clone(folders.data_dir / "beam", texts)
    prepare(dataset, ["full-history", "bm25"], options=PrepareOptions(jobs=1), folders=folders)
    return folders


def asked(server: ModelServer, dataset: BeamDataset, folders: Folders, memory: str) -> list[dict[str, Any]]:
    """The requests of a run of three questions, one after the other, in the order of the file."""
    options = RunOptions(
        run_id=memory,
        protocol="official",
        concurrency=1,
        model_options=ModelOptions(api_base=server.url, max_attempts=1),
    )
    run(dataset, memory, "openai/local", selection=Selection(question_ids=ASKED), options=options, folders=folders)
    return [request.body for request in server.chat_requests]


def test_long_context_is_the_chat_as_messages_and_each_question_alone(
    server: ModelServer, dataset: BeamDataset, folders: Folders, texts: dict[str, str]
) -> None:
    sent = asked(server, dataset, folders, "full-history")
    batches = json.loads(real_file("beam/chats/100K/5/chat_trunecated.json").read_bytes())
    said = [
        {"role": message["role"], "content": message["content"]}
        for batch in batches
        for turn in batch["turns"]
        for message in turn
    ]
    assert len(said) == 232
    questions = {one.question_id: one.text for one in dataset.questions()}
    expected = [texts["long_context_question"].replace("{query}", questions[one]) for one in ASKED]
    assert [body["messages"][-1] for body in sent] == [{"role": "user", "content": text} for text in expected]
    # The authors' list grows: their third prompt ends with all three questions.
    assert all(body["messages"][:-1] == said for body in sent)
    assert all((body["temperature"], body["max_tokens"]) == (0, MAX_TOKENS) for body in sent)
    record = json.loads((folders.results_dir / "full-history" / "run.json").read_text())["settings"]["protocol"]
    assert (record["name"], record["form"], record["deviations"]) == (
        "official",
        LONG_CONTEXT,
        list(DEVIATIONS[LONG_CONTEXT]),
    )


def test_other_memories_are_asked_in_one_message_of_what_they_found(
    server: ModelServer, dataset: BeamDataset, folders: Folders, texts: dict[str, str]
) -> None:
    sent = asked(server, dataset, folders, "bm25")
    stored = json.loads(next(folders.prepared_dir.rglob("db.json")).read_bytes())
    roles = {message["id"]: (message["role"], message["content"]) for message in stored["messages"]}
    answers = [json.loads(line) for line in (folders.results_dir / "bm25" / "answers.jsonl").read_text().splitlines()]
    questions = {one.question_id: one.text for one in dataset.questions()}
    expected = []
    for answer in answers:
        found = "".join(
            f"{role.upper()}: {text} \n\n" for role, text in (roles[message] for message in answer["recall_ids"])
        )
        template = texts["answer_generation_for_rag"]
        asking = questions[answer["question_id"]]
        expected.append(template.replace("<context>", found).replace("<question>", asking))
    assert [body["messages"] for body in sent] == [[{"role": "user", "content": text}] for text in expected]
    assert not any("2024-0" in text.partition("CONTEXT:")[0] for text in expected)


def test_a_place_in_what_was_found_is_left_alone(tmp_path: Path, dataset: BeamDataset, texts: dict[str, str]) -> None:
    question = next(dataset.questions())
    made = compose(dataset, clone(tmp_path / "beam", texts).parent, protocol_record(0, None, False))
    recalled = Recall((RecalledItem("message", "Mind the <question>.", None, "user"), RecalledItem("fact", "F.", None)))
    (message,) = made(question, recalled)
    assert "USER: Mind the <question>. \n\nF. \n\n" in message.content
    assert message.content.count(question.text) == 1


def test_tables_tell_how_the_protocol_differs(server: ModelServer, dataset: BeamDataset, folders: Folders) -> None:
    asked(server, dataset, folders, "bm25")
    server.responder = lambda body: '{"score": 1.0}'
    options = EvaluateOptions(
        judge="beam@openai/gpt-4.1-mini", model_options=ModelOptions(api_base=server.url, max_attempts=1)
    )
    assert evaluate("bm25", options=options, folders=folders).metrics.judge.templates == "beam"
    shown = render_report(["bm25"], options=ReportOptions(format="md"), folders=folders)
    assert "BEAM's answering protocol, rag, in the authors' words." in shown
    assert all(one in shown for one in DEVIATIONS[RAG])


def test_without_the_authors_words_there_is_no_official_protocol(
    tmp_path: Path, dataset: BeamDataset, texts: dict[str, str]
) -> None:
    folders = folders_in(tmp_path)
    options = RunOptions(protocol="official")
    with pytest.raises(IntegrityError, match="cannot be read") as missing:
        run(dataset, "bm25", MODEL, options=options, folders=folders)
    assert "datasets download beam-100k" in missing.value.fix
    file = clone(folders.data_dir / "beam", texts) / "src" / "prompts.py"
    file.write_text(file.read_text().replace("CONTEXT", "Context"))
    with pytest.raises(IntegrityError, match="is not the official one"):
        run(dataset, "bm25", MODEL, options=options, folders=folders)
    assert not folders.results_dir.exists()
