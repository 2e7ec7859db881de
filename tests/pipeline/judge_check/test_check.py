"""A judge whose errors are known is found out, over HTTP, and its scores are corrected."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions
from longmemeval.measures.plant_rates import judge_rates
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.judge_check.check import CheckOutcome, JudgeChecking
from longmemeval.pipeline.options import CheckOptions
from longmemeval.records import Judgement
from longmemeval.results.graded.judge_checks import CHECK, JUDGEMENTS, PLANTS
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from longmemeval.statistics.misclassification import (
    corrected_accuracy,
)
from tests.conftest import real_file
from tests.pipeline.helpers import ask, colours, compare, folders_in, painted_keys, prepared_colours
from tests.server import ModelServer
from tests.support import json_lines, longmemeval, tree

JUDGE = "openai/gpt-4o-2024-08-06"


def checked(data: Dataset, folders: Folders, server: ModelServer) -> CheckOutcome:
    options = CheckOptions(model_options=ModelOptions(api_base=server.url, max_attempts=1))
    return JudgeChecking(data, JUDGE, options=options, folders=folders).check()


def painted(prompt: str) -> bool:
    """Whether the response holds the gold answer."""
    gold = prompt.partition("Correct Answer:")[2].partition("\n")[0].strip()
    return gold in prompt.partition("Model Response:")[2]


def says(label: Callable[[str], bool]) -> Callable[[dict[str, Any]], str]:
    return lambda body: "yes" if label(body["messages"][-1]["content"]) else "no"


@pytest.mark.parametrize(("label", "passed"), [(True, 1.0), (False, 0.0)])
def test_a_judge_that_always_says_the_same(tmp_path: Path, label: bool, passed: float) -> None:
    data, folders = colours(tmp_path / "c.json", 6), folders_in(tmp_path)
    with ModelServer(says(lambda prompt: label)) as server:
        outcome = checked(data, folders, server)
    rates = outcome.check.rates
    assert (rates.right.credit, rates.wrong.credit, rates.none.credit) == (passed, passed, passed)
    assert (
        outcome.newly_judged == rates.right.n + rates.wrong.n + rates.none.n == len(json_lines(outcome.folder / PLANTS))
    )
    assert outcome.rates is not None
    assert not outcome.rates.unlike


@pytest.mark.thorough
def test_a_judge_that_errs_at_random_is_found_out_nearly_always(tmp_path: Path) -> None:
    """A share of its labels is turned round by a hash of the prompt and a seed; the truth is known by the plant."""
    data, folders = colours(tmp_path / "c.json", 30), folders_in(tmp_path)
    plants = JudgeChecking(data, "offline/lexical", folders=folders).plants
    flips, inside = 0.2, 0
    for seed in range(100):
        judgements = {}
        for plant in plants:
            digest = hashlib.sha256(f"{seed} {plant.plant_id}".encode()).digest()
            flipped = int.from_bytes(digest[:8], "big") / 2**64 < flips
            judgements[plant.plant_id] = Judgement(plant.plant_id, plant.right != flipped, "", "j", "", "")
        rates = judge_rates(plants, judgements)
        inside += sum(
            low <= rate <= high
            for rate, (low, high) in ((1 - flips, rates.right.interval), (flips, rates.wrong.interval))
        )
    assert inside >= 188


def test_labels_over_http_are_those_of_the_server(tmp_path: Path) -> None:
    """One that passes a tenth of the prompts, whatever they say."""
    data, folders = colours(tmp_path / "c.json", 10), folders_in(tmp_path)

    def passes(prompt: str) -> bool:
        return int(hashlib.sha256(prompt.encode()).hexdigest(), 16) % 10 == 0

    with ModelServer(says(passes)) as server:
        outcome = checked(data, folders, server)
        prompts = [request.body["messages"][-1]["content"] for request in server.chat_requests]
    given = sum(map(passes, prompts))
    labels = [line["label"] for line in json_lines(outcome.folder / JUDGEMENTS)]
    assert (len(labels), sum(labels)) == (len(prompts), given)
    again = JudgeChecking(
        data, JUDGE, options=CheckOptions(model_options=ModelOptions(api_base=server.url)), folders=folders
    )
    assert again.estimate().work.calls == 0


def test_what_is_left_is_judged_later_and_nothing_twice(tmp_path: Path) -> None:
    data, folders = colours(tmp_path / "c.json", 4), folders_in(tmp_path)
    answered: list[str] = []

    def fails_at_first(body: dict[str, Any]) -> str:
        answered.append(body["messages"][-1]["content"])
        return "yes" if len(answered) % 3 else ""

    with ModelServer(fails_at_first) as server:
        first = checked(data, folders, server)
        left = (
            first.check.rates.right.unlabelled + first.check.rates.wrong.unlabelled + first.check.rates.none.unlabelled
        )
        assert left > 0
        second = checked(data, folders, server)
    assert second.newly_judged == left
    assert second.folder == first.folder


def test_scores_are_shown_corrected_beside_the_raw_ones(tmp_path: Path) -> None:
    """The judge passes every right answer and every second wrong one."""
    data, folders = prepared_colours(tmp_path, 8)

    def lenient(prompt: str) -> bool:
        said = prompt.partition("Model Response:")[2]
        return painted(prompt) or int(hashlib.sha256(said.encode()).hexdigest(), 16) % 2 == 0

    with ModelServer(painted_keys) as server:
        ask(data, folders, server, run_id="r")
    with ModelServer(says(lenient)) as server:
        options = EvaluateOptions(judge=JUDGE, model_options=ModelOptions(api_base=server.url))
        evaluate("r", options=options, folders=folders)
        before = tree(folders.results_dir / "r")
        assert compare(["r"], folders=folders).runs[0].summary.judge_check is None
        outcome = checked(data, folders, server)
    summary = compare(["r"], folders=folders).runs[0].summary
    assert summary.judge_check is not None
    rates, overall = outcome.rates, summary.metrics.overall
    assert rates is not None
    assert summary.judge_check.corrected == corrected_accuracy(overall.accuracy, overall.n, overall.interval, rates)
    assert summary.judge_check.right_passed == outcome.check.rates.right.credit
    assert tree(folders.results_dir / "r") == before
    shown = longmemeval(
        "compare", "r", "--tables", "--notes", cwd=tmp_path, LONGMEMEVAL_RESULTS_DIR=str(folders.results_dir)
    ).stdout
    assert "judge-" in shown
    assert "Corrected scores use Rogan" in shown


def test_a_difference_does_not_survive_by_rates_that_do_not_hold_for_one_of_the_runs(tmp_path: Path) -> None:
    """The judge passes every right answer and half of the wrong plants, and not one answer of `odd`."""
    data, folders = prepared_colours(tmp_path, 30)

    def lenient(prompt: str) -> bool:
        said = prompt.partition("Model Response:")[2]
        return "odd" not in said and hashlib.sha256(said.encode()).digest()[0] % 2 == 0

    for run_id, reply in (("good", painted_keys), ("odd", lambda body: "odd")):
        with ModelServer(reply) as server:
            ask(data, folders, server, run_id=run_id)
    with ModelServer(says(lambda prompt: painted(prompt) or lenient(prompt))) as server:
        options = EvaluateOptions(judge=JUDGE, model_options=ModelOptions(api_base=server.url))
        for run_id in ("good", "odd"):
            evaluate(run_id, options=options, folders=folders)
        checked(data, folders, server)
    found = compare(["good", "odd"], folders=folders)
    (pair,) = found.pairs
    assert (pair.significant, pair.difference) == (True, 1.0)
    odd = found.runs[1].summary.judge_check
    assert odd is not None
    assert odd.reason == "the score is below what this judge gives wrong answers alone"
    (told,) = [one for one in found.sentences if one.code == "not-corrected"]
    assert told.values == {"reason": f"for odd {odd.reason}"}
    assert {*told.runs["A"], *told.runs["B"]} == {"good", "odd"}


def test_the_command_tells_what_it_costs_and_keeps_what_can_be_read(tmp_path: Path) -> None:
    command = ("judge", "check", "offline/lexical", "--dataset", "sample", "--sample", "10")
    dry = longmemeval(*command, "--dry-run", cwd=tmp_path)
    assert "to be judged; no model is called." in dry.stdout
    assert not (tmp_path / "results").exists()
    paid = longmemeval(
        "judge", "check", JUDGE, "--dataset", "sample", "--limit", "2", "--dry-run", "--json",
        cwd=tmp_path, OPENAI_API_KEY="sk-not-a-key-123456",
    )  # fmt: skip
    estimate = json.loads(paid.stdout)["estimate"]
    assert estimate["calls"] == estimate["plants"] > 0
    assert estimate["usd"] > 0
    done = longmemeval(*command, cwd=tmp_path)
    assert "False negatives" in done.stdout
    (folder,) = (tmp_path / "results" / "judge-checks").glob("*/*")
    assert {path.name for path in folder.iterdir()} == {PLANTS, JUDGEMENTS, CHECK}
    again = longmemeval(*command, cwd=tmp_path)
    assert again.stdout == done.stdout.replace(f"Judged now: {estimate_of(done.stdout)}", "Judged now: 0")
    assert longmemeval("runs", cwd=tmp_path).stdout.startswith("No runs yet.")


def estimate_of(output: str) -> str:
    return output.partition("Judged now: ")[2].partition(";")[0]


def test_an_unknown_judge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="Unknown judge 'offline/lexica'"):
        JudgeChecking(colours(tmp_path / "c.json", 2), "offline/lexica", folders=folders_in(tmp_path))


@pytest.mark.variants
@pytest.mark.parametrize(("file", "judge"), [("beam/chats/100K", "beam"), ("locomo_plus.json", "locomo-plus")])
@pytest.mark.parametrize("says_yes", [True, False])
def test_judges_of_scores_and_of_three_labels(tmp_path: Path, file: str, judge: str, says_yes: bool) -> None:
    said = ("correct", "yes") if says_yes else ("wrong", "")
    reply = json.dumps({"score": float(says_yes), "label": said[0], "reason": said[1]})
    folders = folders_in(tmp_path)
    with ModelServer(lambda body: reply) as server:
        options = CheckOptions(model_options=ModelOptions(api_base=server.url, max_attempts=1))
        data, sample = load_dataset(real_file(file), folders.data_dir), Selection(sample=10)
        outcome = JudgeChecking(data, f"{judge}@{JUDGE}", selection=sample, options=options, folders=folders).check()
    rates = outcome.check.rates
    assert rates.right.n >= 5
    # Of events that it takes for none of the nuggets, an order scores a little.
    assert rates.right.credit == pytest.approx(float(says_yes), abs=0.02)
    assert rates.wrong.credit == pytest.approx(float(says_yes), abs=0.02)
    assert outcome.rates is not None
    assert not outcome.rates.unlike
