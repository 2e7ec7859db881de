"""`longmemeval retrieval` and `export`: the document, the tables, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.locomo.test_loader import make_conversation
from tests.cli.conftest import Command
from tests.pipeline.helpers import colour_record, prepared_colours
from tests.support import next_steps, tree, write_dataset


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with four questions, prepared for `combined`."""
    prepared_colours(tmp_path, 4, "combined")
    monkeypatch.chdir(tmp_path)


FOUR = "4 questions are too few for any difference to be significant."
LAST_K = "retrieval --dataset colours.json --memory last-k"


@pytest.mark.slow
def test_json_document(command: Command) -> None:
    done = command(f"{LAST_K} --memory oracle --measure mrr --measure recall_any --k 1 --json")
    assert (done.code, done.stderr) == (0, "")
    measured: dict[str, dict[str, Any]] = {
        "last-k": {"recall_any@1": 0.0, "mrr": 0.5},
        "oracle": {"recall_any@1": 1.0, "mrr": 1.0},
    }
    assert json.loads(done.stdout) == {
        "dataset": "colours",
        "results": [
            {
                "memory": memory,
                "protocol": "standard",
                "granularity": "session",
                "gold": "answer_session_ids",
                "denominator": "4 questions: abstention included",
                "measures": measures,
                "by_type": {"single-session-user": measures},
                "warnings": [
                    {"code": "few-questions", "text": FOUR, "share": None},
                ],
            }
            for memory, measures in measured.items()
        ],
    }


@pytest.mark.slow
def test_one_memory_is_shown_with_its_types(command: Command) -> None:
    done = command(f"{LAST_K} --run-id mine")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["last-k", "4", "100.0", "!", "[51.0,", "100.0]", "100.0", "63.1", "100.0", "100.0", "63.1", "50.0"] in lines
    assert ["single-session-user", "4"] in [line[:2] for line in lines]
    assert "session level: answer_session_ids" in done.stdout
    assert "4 questions: abstention included" in done.stdout
    assert "Ties keep the order of the history." in done.stdout
    assert "offline fallback" not in done.stdout
    assert next_steps(done.stderr) == [["export", "mine", "--format", "trec"]]


@pytest.mark.slow
def test_several_memories_are_rows_and_warned_about(command: Command) -> None:
    done = command(f"{LAST_K} --memory oracle --memory semantic-recall --k 5")
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert all([memory, "4"] in rows for memory in ("last-k", "oracle", "semantic-recall"))
    assert ["single-session-user", "4"] not in rows
    assert "oracle is given the gold evidence" in done.stdout
    assert "Embedder: hashing (offline fallback)" in done.stdout


@pytest.mark.slow
def test_settings_reach_the_memory(command: Command) -> None:
    done = command(f"{LAST_K} --set last_messages=2 --measure recall_any@3 --json")
    assert json.loads(done.stdout)["results"][0]["measures"] == {"recall_any@3": 0.0}


@pytest.mark.slow
def test_options_short_for_settings(command: Command) -> None:
    line = "retrieval --dataset colours.json --memory bm25 --granularity turn --measure recall_any@5 --json --run-id"
    by_option, by_setting = command(f"{line} a --budget 12"), command(f"{line} b --set budget=12")
    whole = command(f"{line} c")
    assert by_option.stdout == by_setting.stdout
    assert json.loads(by_option.stdout)["results"][0]["measures"] == {"recall_any@5": 0.0}
    assert json.loads(whole.stdout)["results"][0]["measures"] == {"recall_any@5": 1.0}
    settings = [json.loads(Path("results", run, "run.json").read_text())["settings"] for run in "ab"]
    assert settings[0] == settings[1]
    assert settings[0]["memory"]["parameters"]["budget"] == 12


@pytest.mark.slow
def test_official_protocol_needs_no_fixture(command: Command, tmp_path: Path) -> None:
    write_dataset(tmp_path / "other.json", colour_record(1), colour_record(2, question_id="q2_abs"))
    line = "retrieval --dataset other.json --memory bm25 --protocol official --granularity turn"
    done = command(f"{line} --log logs/turn --json")
    found = json.loads(done.stdout)["results"]
    assert [(one["granularity"], one["denominator"]) for one in found] == [
        ("turn", "1 question: no abstention, user evidence"),
        ("turn", "1 question: no abstention"),
        ("turn2session", "1 question: no abstention, user evidence"),
        ("turn2session", "1 question: no abstention"),
    ]
    assert {one["measures"]["ndcg_official@1"] for one in found} == {1.0}
    assert len((tmp_path / "logs" / "turn").read_text().splitlines()) == 2
    shown = command(f"{line} --memory semantic-recall").stdout
    assert "the later document first" in shown
    assert "Embedder: hashing (offline fallback)" in shown


@pytest.mark.slow
def test_locomo_is_shown_by_both_recalls(command: Command, tmp_path: Path) -> None:
    write_dataset(tmp_path / "talk.json", make_conversation())
    assert command("prepare --dataset talk.json --memory last-k").code == 0
    done = command("retrieval --dataset talk.json --memory last-k --json")
    official, strict = json.loads(done.stdout)["results"]
    assert (official["gold"], official["granularity"]) == ("locomo official", "turn")
    assert list(official["measures"]) == list(strict["measures"]) == ["recall@5", "recall@10", "recall@25", "recall@50"]
    assert strict["measures"]["recall@50"] == 1.0


@pytest.mark.slow
def test_export(command: Command, tmp_path: Path) -> None:
    command(f"{LAST_K} --run-id mine")
    done = command("export mine --format trec --output out")
    assert done.code == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"mine.run", "mine.qrels"}
    assert "Rankings of 4 questions: out/mine.run" in done.stdout
    assert json.loads(command("export mine --format trec --json").stdout)["questions"] == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "told"),
    [
        (f"{LAST_K} --measure recal_any@5", "Unknown measure 'recal_any@5'. Did you mean 'recall_any@k'?"),
        (f"{LAST_K} --measure recall_any@x", "needs a cutoff"),
        (f"{LAST_K} --k 0", "needs a cutoff"),
        (f"{LAST_K} --granularity trun", "'session', 'turn'"),
        (f"{LAST_K} --protocol oficial", "'standard', 'official'"),
        (f"{LAST_K} --protocol official", "does not rank by 'last-k'. Valid: bm25, semantic-recall"),
        (f"{LAST_K} --set last_mesages=3", "Did you mean 'last_messages'?"),
        (f"{LAST_K} --budget 100", "'last-k' has no parameter 'budget'"),
        ("retrieval --dataset colours.json --memory bm25 --budget 0", "greater than or equal to 1"),
        ("retrieval --dataset colours.json --memory bm25 --reranker x:y", "Unknown reranker 'x'"),
        ("retrieval --dataset colours.json --memory semantic-recall --reranker fastembed:x", "set retriever=hybrid"),
        ("retrieval --dataset colours.json --memory bm25 --set decompose=model", "Name one with --query-model"),
        (f"{LAST_K} --prepared other", "`longmemeval prepare --dataset colours.json --memory last-k --prepared other`"),
        (f"{LAST_K} --question-id q9", "no question 'q9'"),
        ("retrieval --dataset colours.json", "--memory"),
        ("retrieval --dataset colours.json --memory lastk", "Did you mean 'last-k'?"),
        ("export mine", "--format"),
        ("export mine --format trek", "'trek'"),
        ("export mine --format trec", "Unknown run 'mine'"),
    ],
)
def test_bad_input(command: Command, tmp_path: Path, line: str, told: str) -> None:
    before = tree(tmp_path)
    outcome = command(line)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert "Traceback" not in outcome.stderr
    assert told in " ".join(outcome.stderr.replace("│", " ").split())
    assert tree(tmp_path) == before
