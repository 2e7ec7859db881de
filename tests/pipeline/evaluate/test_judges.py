"""Several judges, votes, judging anew, LoCoMo's own score and an audit of its labels: all beside the same answers."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.benchmarks.locomo.judge import LOCOMO_F1, MEM0_F1
from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.errors import FatalModelError, HarnessError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.llm.http import endpoints
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate, evaluate_by
from longmemeval.pipeline.verify.verify import verify
from longmemeval.results.formats.hypotheses import adopt_hypotheses, export_official
from longmemeval.results.graded.graded_run import Evaluation
from longmemeval.results.index import read_index
from longmemeval.results.scores.warnings import Gradings
from longmemeval.settings import Folders
from tests.benchmarks.locomo.test_loader import make_conversation
from tests.benchmarks.longmemeval.test_loader import write
from tests.pipeline.finished import finished
from tests.pipeline.helpers import compare, folders_in
from tests.server import ModelServer
from tests.support import json_lines, longmemeval, tree

STRICT = "strict@openai/gpt-4o-mini"
RIGHT, WRONG = "yes", "no"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123")
    with ModelServer(lambda body: RIGHT) as server:
        yield server


@pytest.fixture
def folders(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Folders:
    return finished(tmp_path_factory, tmp_path, judge="")[1]


def judged(folders: Folders, server: ModelServer, *, votes: int = 1, rejudge: bool = False) -> Evaluation:
    asked = EvaluateOptions(
        judge=STRICT, model_options=ModelOptions(api_base=server.url, max_attempts=2, max_wait_s=0.01), concurrency=1
    )
    return evaluate("r", options=structs.replace(asked, votes=votes, rejudge=rejudge), folders=folders)


def replies(server: ModelServer, *texts: str) -> None:
    turn = itertools.cycle(texts)
    server.responder = lambda body: next(turn)


def test_the_majority_of_the_votes_is_the_label_and_their_spread_is_told(folders: Folders, server: ModelServer) -> None:
    judged(folders, server)
    # Three calls per question, one question at a time: two say right, one says wrong.
    replies(server, RIGHT, RIGHT, WRONG)
    metrics = judged(folders, server, votes=3).metrics
    assert len(server.chat_requests) == 4 + 3 * 4
    assert metrics.overall.correct == 4
    assert metrics.votes is not None
    assert (metrics.votes.votes, metrics.votes.unanimous) == (3, 0.0)
    assert metrics.votes.lowest < metrics.votes.highest
    [file] = [path for path in (folders.results_dir / "r" / "judgements").iterdir() if path.stem == metrics.judge.id]
    assert all(sorted(line["votes"]) == sorted([RIGHT, RIGHT, WRONG]) for line in json_lines(file))
    assert verify("r", folders=folders).problems == ()


def test_judging_anew_writes_another_file_and_leaves_every_byte(folders: Folders, server: ModelServer) -> None:
    first = judged(folders, server)
    before = tree(folders.results_dir / "r", without=("spending-judges.jsonl",))
    replies(server, WRONG)
    second = judged(folders, server, rejudge=True)
    after = tree(folders.results_dir / "r")
    assert {name: after[name] for name in before} == before
    assert first.grading.judge.id != second.grading.judge.id
    assert (first.newly_judged, second.newly_judged) == (4, 4)
    assert first.grading.overall.correct != second.grading.overall.correct
    assert judged(folders, server).newly_judged == 0
    third = judged(folders, server, rejudge=True)
    assert len({one.grading.judge.id for one in (first, second, third)}) == 3
    assert verify("r", folders=folders).problems == ()


def test_of_several_gradings_the_first_is_the_score_everywhere(
    folders: Folders, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The test's server stands for OpenAI's own, so that the first grading is the official one.
    monkeypatch.setitem(endpoints.OWN_ADDRESSES, "openai", server.url)
    server.served_model = "gpt-4o-2024-08-06"
    asked = EvaluateOptions(model_options=ModelOptions(api_base=server.url, max_attempts=1), concurrency=1)
    replies(server, RIGHT, RIGHT, RIGHT, WRONG)
    first = again = evaluate("r", options=asked, folders=folders)
    for texts in ((WRONG,), (RIGHT,), (RIGHT, WRONG)):
        replies(server, *texts)
        again = evaluate("r", options=structs.replace(asked, rejudge=True), folders=folders)
        assert again.metrics == first.metrics
        assert (again.grading.judge.official, again.newly_judged) == (False, 4)
    assert (first.metrics.overall.accuracy, first.metrics.judge.official) == (0.75, True)
    (run,) = compare(["r"], folders=folders).runs
    assert run.summary.metrics.judge == first.metrics.judge
    assert run.summary.gradings == Gradings(4, 0.0, 1.0, (0.75, 0.0, 1.0, 0.5))
    said = "r: 4 gradings by this judge, accuracy 0.0% to 100.0%; the first is the score, 75.0%."
    for command in (("compare", "r", "--notes"), ("evaluate", "r"), ("report", "r", "--format", "md", "-o", "-")):
        told = " ".join(longmemeval(*command, cwd=tmp_path).stdout.split())
        assert said in told, command
        assert "75.0%" in told
    document = json.loads(longmemeval("evaluate", "r", "--json", cwd=tmp_path).stdout)
    assert (document["overall"]["accuracy"], document["gradings"]["n"]) == (0.75, 4)
    # A model or a beginning of an id means the first grading; a later one is shown where its own id asks for it.
    assert compare(["r"], judge="longmemeval-gpt", folders=folders).runs[0].summary.metrics.judge == first.metrics.judge
    (later,) = compare(["r"], judge=again.grading.judge.id, folders=folders).runs
    assert later.summary.metrics.overall.accuracy == 0.5
    told = " ".join(
        longmemeval(
            "compare", "r", "--judge", again.grading.judge.id, "--tables", "--notes", cwd=tmp_path
        ).stdout.split()
    )
    assert f"{said[:-1]}, and this is number 4." in told
    assert "grading 4. Not the official judge" in told
    # One official line in the index, one log for the official script, one baseline.
    index = read_index(folders.results_dir)
    assert [(entry.grading, entry.official) for entry in index] == [(1, True), (2, False), (3, False), (4, False)]
    exported = export_official("r", folders=folders)
    assert (len(exported.logs), len(exported.later_gradings), exported.unofficial) == (1, 3, ())
    assert verify("r", folders=folders).problems == ()


def test_judging_anew_that_was_interrupted_goes_on_in_its_file(folders: Folders, server: ModelServer) -> None:
    judged(folders, server)
    server.faults.extend([400, 400])
    second = judged(folders, server, rejudge=True)
    assert second.grading.overall.not_evaluated == 2
    assert second.failed == 2
    again = judged(folders, server, rejudge=True)
    assert again.grading.judge.id == second.grading.judge.id
    assert (again.newly_judged, again.grading.overall.not_evaluated) == (2, 0)


def test_rules_cannot_be_asked_twice(folders: Folders, tmp_path: Path) -> None:
    longmemeval("evaluate", "r", "--judge", LEXICAL_JUDGE, cwd=tmp_path)
    for option in (("--rejudge",), ("--votes", "3")):
        done = longmemeval("evaluate", "r", "--judge", LEXICAL_JUDGE, *option, cwd=tmp_path, code=2)
        assert "gives the same labels every time" in " ".join(done.stderr.split())


def test_two_judges_in_one_command_and_how_they_agree(folders: Folders, server: ModelServer, tmp_path: Path) -> None:
    replies(server, '{"label": "WRONG"}')
    command = ("evaluate", "r", "--judge", LEXICAL_JUDGE, "--judge", "lenient@openai/gpt-4o-mini")
    endpoint = ("--api-base", server.url)
    done = longmemeval(*command, *endpoint, cwd=tmp_path, OPENAI_API_KEY="sk-not-a-real-key-0123")
    assert "Cohen's" in done.stdout
    judge = f"Judge: openai/gpt-4o-mini, prompts: lenient, served at {server.url}. Not the official judge"
    assert judge in done.stdout
    assert "Disputed: q0, q1, q2, q3" in done.stdout
    document = json.loads(longmemeval(*command, *endpoint, "--json", cwd=tmp_path, OPENAI_API_KEY="sk-x").stdout)
    assert len(document["judges"]) == 2
    [pair] = document["agreement"]
    assert pair["agreement"]["overall"] == {"n": 4, "not_evaluated": 0, "agreed": 0.0, "kappa": 0.0}
    assert pair["agreement"]["disputed"] == ["q0", "q1", "q2", "q3"]


def test_a_second_judge_that_cannot_be_asked_is_refused_before_the_first_is_paid(
    folders: Folders, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    with pytest.raises(FatalModelError, match="ANTHROPIC_API_KEY"):
        evaluate_by([STRICT, "strict@anthropic/claude-3-5-haiku-20241022"], "r", folders=folders)
    assert server.chat_requests == []


def test_every_score_has_one_line_in_the_index(folders: Folders, server: ModelServer) -> None:
    judged(folders, server)
    evaluate("r", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    evaluate("r", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    entries = read_index(folders.results_dir)
    assert [(entry.run, entry.n) for entry in entries] == [("r", 4), ("r", 4)]
    assert len({entry.judge for entry in entries}) == 2
    assert len({entry.settings_sha256 for entry in entries}) == 1


@pytest.fixture
def locomo(tmp_path: Path) -> tuple[LocomoDataset, Folders, str]:
    """A hand-made conversation with one question per category, answered by hand; the last question is adversarial."""
    dataset = LocomoDataset(write(tmp_path / "talks.json", make_conversation()))
    answers = ["Oslo", "2023", "work", "The lakes", "That is not mentioned."]
    lines = [{"question_id": f"conv-1/q{number}", "hypothesis": text} for number, text in enumerate(answers)]
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    folders = folders_in(tmp_path)
    return dataset, folders, adopt_hypotheses(file, dataset, folders.results_dir).run_id


def test_locomo_is_graded_by_its_own_score_unless_told_otherwise(
    locomo: tuple[LocomoDataset, Folders, str], tmp_path: Path
) -> None:
    _, folders, run_id = locomo
    metrics = evaluate(run_id, folders=folders).metrics
    assert (metrics.judge.model, metrics.judge.metric) == (LOCOMO_F1, "F1")
    # "The lakes" has the stem of "The lake"; "work" is the gold up to its semicolon.
    assert {name: score.accuracy for name, score in metrics.by_type.items()} == {
        "single-hop": 1.0,
        "multi-hop": 1.0,
        "temporal": 1.0,
        "open-domain": 1.0,
        "open abstention": 1.0,
    }
    assert metrics.answerable is not None
    assert (metrics.answerable.n, metrics.overall.n) == (4, 5)
    assert list(metrics.by_ability) == ["fact-recall", "multi-hop", "temporal", "inference", "abstention"]
    assert metrics.official_figures is None
    shown = longmemeval("evaluate", run_id, cwd=tmp_path).stdout
    assert "F1" in shown
    assert "adversarial questions asked without their two options" in " ".join(shown.split())
    assert verify(run_id, folders=folders).problems == ()


def test_what_rules_leave_out_is_not_asked_again(locomo: tuple[LocomoDataset, Folders, str]) -> None:
    _, folders, run_id = locomo
    first, second = (evaluate(run_id, options=EvaluateOptions(judge=MEM0_F1), folders=folders) for _ in range(2))
    assert (first.newly_judged, second.newly_judged) == (5, 0)
    assert first.metrics == second.metrics
    assert first.metrics.overall.not_evaluated == 1
    [file] = (folders.results_dir / run_id / "judgements").iterdir()
    assert len(json_lines(file)) == 5


def test_a_score_changed_by_hand_is_caught(locomo: tuple[LocomoDataset, Folders, str]) -> None:
    _, folders, run_id = locomo
    evaluate(run_id, folders=folders)
    [file] = (folders.results_dir / run_id / "judgements").iterdir()
    file.write_text(file.read_text().replace('"score":1.0', '"score":0.5', 1))
    problems = " ".join(verify(run_id, folders=folders).problems)
    assert "was changed after it was scored" in problems
    assert "does not follow from what the judge said" in problems


def test_an_audit_stands_beside_the_score(locomo: tuple[LocomoDataset, Folders, str], tmp_path: Path) -> None:
    _, folders, run_id = locomo
    answers = folders.results_dir / run_id / "answers.jsonl"
    before = answers.read_bytes()
    audit = tmp_path / "errors.json"
    audit.write_text(
        json.dumps(
            [
                {"question_id": "locomo_0_qa1", "error_type": "TEMPORAL_ERROR"},
                {"question_id": "locomo_0_qa0", "error_type": "WRONG_CITATION"},
            ]
        )
    )
    done = longmemeval("evaluate", run_id, "--audit", audit, cwd=tmp_path)
    assert "Audit errors.json: 1 of the gold answers are disputed" in done.stdout
    document = json.loads(longmemeval("evaluate", run_id, "--audit", audit, "--json", cwd=tmp_path).stdout)
    [audited] = document["audit"]
    assert (audited["disputed"], audited["citation_only"]) == (1, 1)
    assert audited["score"] == {"mean": 1.0, "n": 5, "undisputed_mean": 1.0, "undisputed_n": 4}
    assert audited["ceiling"]["overall"] == 0.8
    assert answers.read_bytes() == before


def test_what_rules_leave_out_is_no_failure(locomo: tuple[LocomoDataset, Folders, str], tmp_path: Path) -> None:
    _, folders, run_id = locomo
    done = longmemeval("evaluate", run_id, "--judge", "offline/mem0-f1", cwd=tmp_path)
    (overall,) = [line.split() for line in done.stdout.splitlines() if line.strip().startswith("overall")]
    assert overall[-2:] == ["5", "1"]
    assert evaluate(run_id, options=EvaluateOptions(judge="offline/mem0-f1"), folders=folders).newly_judged == 0


def test_a_judge_that_refuses_leaves_no_file(folders: Folders) -> None:
    with pytest.raises(HarnessError, match="This judge grades LoCoMo"):
        evaluate("r", options=EvaluateOptions(judge=LOCOMO_F1), folders=folders)
    assert list((folders.results_dir / "r" / "judgements").glob("*")) == []
