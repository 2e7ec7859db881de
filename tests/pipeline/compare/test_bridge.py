"""Two judges of the same answers: figures equal to independent code, what is graded, `verify`, and `compare`."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from math import comb, log, sqrt
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np
import pytest
from scipy import optimize, stats

from longmemeval import bridge_judges
from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import HarnessError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.compare.bridge import FOLDER
from longmemeval.pipeline.evaluate.bridging import MadeBridge
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.verify.verify import verify, verify_all
from longmemeval.results.formats.hypotheses import import_official
from longmemeval.settings import Folders
from tests.pipeline.finished import RIGHT_AND_WRONG, finished
from tests.pipeline.helpers import compare, folders_in
from tests.server import ModelServer
from tests.support import json_lines, longmemeval

STRICT = "strict@openai/gpt-4o-mini"
Labels = dict[str, bool]


@pytest.fixture
def logs(tmp_path: Path) -> Folders:
    """Two judged logs on the sample: the log's judge prefers `a` far more than rules do."""
    folders, data, random = folders_in(tmp_path), load_dataset("sample", tmp_path), Random(3)
    for run, share in (("a", 0.95), ("b", 0.6)):
        lines = []
        for question in data.questions():
            right = random.random() < 0.75
            label = {"model": "gpt-4o-2024-08-06", "label": right if random.random() < share else not right}
            answer = str(data.gold(question.question_id).answer) if right else "I do not know."
            lines.append({"question_id": question.question_id, "hypothesis": answer, "autoeval_label": label})
        log_file = tmp_path / f"{run}.jsonl"
        log_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        import_official(log_file, data, run_id=run, folders=folders)
    return folders


def log_judge(folders: Folders) -> str:
    return next((folders.results_dir / "b" / "judgements").glob("imported-*.jsonl")).stem


def bridged(folders: Folders, *runs: str) -> tuple[MadeBridge, list[tuple[Labels, Labels]]]:
    """The bridge, and both judges' labels of each run, read from its files."""
    made = bridge_judges(log_judge(folders), LEXICAL_JUDGE, *runs, folders=folders)
    ids = made.bridge.old.id, made.bridge.new.id
    of = [[folders.results_dir / run / "judgements" / f"{judge}.jsonl" for judge in ids] for run in runs]
    read = [[{line["question_id"]: line["label"] for line in json_lines(file)} for file in files] for files in of]
    return made, [(old, new) for old, new in read]


def kappa_of(pairs: list[tuple[bool, bool]]) -> float:
    """Cohen (1960), from the table of counts."""
    n = len(pairs)
    table = {(a, b): pairs.count((a, b)) / n for a in (True, False) for b in (True, False)}
    observed = table[True, True] + table[False, False]
    expected = sum((table[x, True] + table[x, False]) * (table[True, x] + table[False, x]) for x in (True, False))
    return (observed - expected) / (1 - expected)


def error_of_kappa(pairs: list[tuple[bool, bool]]) -> float:
    """The standard error of Fleiss, Cohen and Everitt (1969), equation 13, as statistical packages have it."""
    n, kappa = len(pairs), kappa_of(pairs)
    p = np.array([[pairs.count((a, b)) / n for b in (True, False)] for a in (True, False)])
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    expected = float(rows @ columns)
    first = sum(p[i, i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in range(2))
    second = (1 - kappa) ** 2 * sum(p[i, j] * (columns[i] + rows[j]) ** 2 for i in range(2) for j in range(2) if i != j)
    return sqrt(first + second - (kappa - expected * (1 - kappa)) ** 2) / ((1 - expected) * sqrt(n))


def interval_of_kappa(pairs: list[tuple[bool, bool]]) -> tuple[float, float]:
    """Wilson's interval, found by solving for it, of an agreement with the standard error of kappa."""
    seen, kappa, error = fmean(a == b for a, b in pairs), kappa_of(pairs), error_of_kappa(pairs)
    by_chance = (seen - kappa) / (1 - kappa)
    worth, z = seen * (1 - seen) / (error * (1 - by_chance)) ** 2, stats.norm.ppf(0.975)

    def beyond(share: float) -> float:
        return float((seen - share) ** 2 - z**2 * share * (1 - share) / worth)

    low, high = optimize.brentq(beyond, 0, seen), optimize.brentq(beyond, seen, 1)
    return (low - by_chance) / (1 - by_chance), (high - by_chance) / (1 - by_chance)


def paired_interval(more: int, less: int, n: int) -> tuple[float, float]:
    """Tango's score interval by maximising the likelihood numerically, and Clopper and Pearson's of the discordant."""

    def score(d: float) -> float:
        def loss(q: float) -> float:  # of the probability of `less`; that of `more` is q + d.
            cells = ((more, q + d), (less, q), (n - more - less, 1 - 2 * q - d))
            return -sum(count * log(max(share, 1e-300)) for count, share in cells if count)

        low, high = max(0.0, -d), (1 - d) / 2
        q = float(optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x)
        return (more - less - n * d) / sqrt(n * (2 * q + d * (1 - d)))

    seen, z = (more - less) / n, stats.norm.ppf(0.975)
    low = optimize.brentq(lambda d: score(d) - z, -0.9, seen)
    high = optimize.brentq(lambda d: score(d) + z, seen, 0.9)
    k = more + less
    exact = stats.beta.ppf(0.025, more, less + 1), stats.beta.ppf(0.975, more + 1, less)
    ends = [(2 * share - 1) * k / n for share in exact]
    return min(low, ends[0]), max(high, ends[1])


def test_figures_of_one_run_equal_independent_code(logs: Folders) -> None:
    made, [(old, new)] = bridged(logs, "b")
    found = made.bridge.overall
    pairs = [(old[name], new[name]) for name in sorted(old)]
    more, less = pairs.count((False, True)), pairs.count((True, False))
    assert min(more, less) > 3
    assert found.agreement.n == len(pairs) == 108
    assert found.agreement.agreed == fmean(a == b for a, b in pairs)
    assert found.agreement.kappa == pytest.approx(kappa_of(pairs), abs=1e-12)
    assert found.kappa_interval == pytest.approx(interval_of_kappa(pairs), abs=1e-9)
    assert (found.old, found.new) == (fmean(old.values()), fmean(new.values()))
    assert found.shift == pytest.approx((more - less) / 108, abs=1e-12)
    assert found.interval == pytest.approx(paired_interval(more, less, 108), abs=1e-5)
    tail = sum(comb(more + less, k) for k in range(min(more, less) + 1)) / 2 ** (more + less)
    assert found.p == pytest.approx(min(1.0, 2 * tail), abs=1e-12)
    by_type = made.bridge.by_type
    assert sum(group.agreement.n for group in by_type.values()) == 108
    assert sum(group.shift * group.agreement.n for group in by_type.values()) == pytest.approx(more - less)
    assert made.bridge.pairs == ()


def test_answers_to_one_question_are_one_unit_over_several_runs(logs: Folders) -> None:
    made, labels = bridged(logs, "a", "b")
    found, names = made.bridge.overall, sorted(labels[0][0])
    rows = [[(old[name], new[name]) for old, new in labels] for name in names]
    assert found.agreement.n == 216
    shifts = np.array([sum(b - a for a, b in row) / 2 for row in rows])
    assert found.shift == pytest.approx(float(shifts.mean()), abs=1e-12)
    assert found.test == "sign-flip permutation"
    signs = np.random.default_rng(5).choice([-1, 1], size=(20_000, len(names)))
    for end in found.interval:  # What the test just does not reject.
        moved = shifts - end
        assert np.mean(np.abs(signs @ moved) >= abs(moved.sum()) - 1e-9) == pytest.approx(0.05, abs=0.012)
    # The jackknife over questions.
    left_out = [kappa_of([pair for other in rows if other is not row for pair in other]) for row in rows]
    n = len(rows)
    error = sqrt((n - 1) / n * sum((value - fmean(left_out)) ** 2 for value in left_out))
    assert found.kappa_interval is not None
    low, high = found.kappa_interval
    assert (high - low) / 2 / stats.norm.ppf(0.975) == pytest.approx(error, rel=0.05)
    assert [group.agreement.n for group in made.bridge.by_run.values()] == [108, 108]


def test_a_difference_between_runs_that_changes_its_verdict_is_named(logs: Folders) -> None:
    made, _ = bridged(logs, "a", "b")
    (pair,) = made.bridge.pairs
    by_judge = [compare(["a", "b"], judge=judge.id, folders=logs) for judge in (made.bridge.old, made.bridge.new)]
    assert [pair.old, pair.new] == [comparison.pairs[0] for comparison in by_judge]
    assert (pair.old.is_better, pair.new.significant, pair.changed) == (True, False, True)
    ran = longmemeval("judge", "bridge", log_judge(logs), LEXICAL_JUDGE, "a", "b", cwd=logs.results_dir.parent)
    assert "Differences with another verdict: 1 of 1 pair, Holm" in ran.stdout


def test_verify_computes_a_bridge_again(logs: Folders) -> None:
    made, _ = bridged(logs, "a", "b")
    good = verify(made.bridge.name, folders=logs)
    assert (good.problems, good.checked) == ((), 8)
    assert verify_all([str(made.file)], folders=Folders())[0].subject == made.bridge.name
    text = made.file.read_text()
    made.file.write_text(text.replace(f'"shift": {made.bridge.overall.shift}', '"shift": 0.5', 1))
    (problem,) = verify(made.bridge.name, folders=logs).problems
    assert "give other figures (overall.shift" in problem
    made.file.write_text(text.replace(made.bridge.rests_on["a/answers.jsonl"], "0" * 64))
    (problem,) = verify(made.bridge.name, folders=logs).problems
    assert "a/answers.jsonl changed after it was made" in problem
    assert bridged(logs, "a", "b")[0].file.read_text() == text


def test_compare_of_two_judges_names_a_bridge_that_verifies(logs: Folders) -> None:
    data = load_dataset("sample", logs.results_dir)
    import_official(logs.results_dir.parent / "b.jsonl", data, run_id="log", folders=logs)
    import_official(logs.results_dir.parent / "b.jsonl", data, run_id="rules", folders=logs)
    evaluate("rules", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=logs)
    shutil.rmtree(logs.results_dir / "a")  # It would be the other judge's too.
    for name in ("judgements", "metrics"):
        (imported,) = (logs.results_dir / "rules" / name).glob("imported-*")
        imported.unlink()

    def advice() -> str:
        with pytest.raises(HarnessError, match="scored by different judges") as error:
            compare(["log", "rules"], folders=logs)
        return error.value.fix

    command = f"longmemeval judge bridge {log_judge(logs)} {LEXICAL_JUDGE} log"
    assert f"`{command}`" in advice()
    ran = longmemeval(*shlex.split(command)[1:-1], "b", cwd=logs.results_dir.parent)
    (file,) = (logs.results_dir / FOLDER).rglob("*.json")
    shift = re.search(r"([+-]\d+\.\d) points", ran.stdout)
    assert shift is not None
    assert f"The bridge {file.relative_to(logs.results_dir)} compares these judges on 108 answers" in advice()
    assert f"is {shift[1]} points" in advice()
    file.write_text(file.read_text().replace('"old": 0.', '"old": 0.9', 1))
    assert "cannot be used" in advice()
    assert f"is {shift[1]} points" not in advice()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-0123")
    with ModelServer(lambda body: "yes") as server:
        yield server


@pytest.fixture
def asked(server: ModelServer) -> EvaluateOptions:
    return EvaluateOptions(model_options=ModelOptions(api_base=server.url, max_attempts=1, max_wait_s=0.01))


def test_only_what_a_judge_has_not_graded_is_asked(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, server: ModelServer, asked: EvaluateOptions
) -> None:
    folders = finished(tmp_path_factory, tmp_path, said=RIGHT_AND_WRONG)[1]
    judgements = folders.results_dir / "r" / "judgements"
    (own,) = judgements.iterdir()
    before = own.read_bytes()
    command = ("judge", "bridge", LEXICAL_JUDGE, STRICT, "r", "--api-base", server.url)
    planned = longmemeval(*command, "--dry-run", "--json", cwd=tmp_path)
    assert [judge["left"] for judge in json.loads(planned.stdout)["judges"]] == [0, 4]
    assert (len(server.chat_requests), list(judgements.iterdir())) == (0, [own])
    made = bridge_judges(LEXICAL_JUDGE, STRICT, "r", options=asked, folders=folders)
    assert (len(server.chat_requests), own.read_bytes()) == (4, before)
    assert (made.bridge.overall.old, made.bridge.overall.new, made.failed) == (0.5, 1.0, False)
    document = json.loads(longmemeval(*command, "--json", cwd=tmp_path).stdout)
    assert document["bridge"] == json.loads(made.file.read_bytes())
    assert len(server.chat_requests) == 4


def test_a_judge_without_labels_makes_no_bridge(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, server: ModelServer, asked: EvaluateOptions
) -> None:
    folders = finished(tmp_path_factory, tmp_path)[1]
    server.responder = lambda body: "perhaps"
    with pytest.raises(HarnessError, match=r"No answer has a label by both judges.*cannot be read"):
        bridge_judges(LEXICAL_JUDGE, STRICT, "r", options=asked, folders=folders)
    assert not (folders.results_dir / FOLDER).exists()
    replies = iter(["yes", "perhaps", "yes", "no"])
    server.responder = lambda body: next(replies)
    made = bridge_judges(LEXICAL_JUDGE, STRICT, "r", options=asked, folders=folders)
    assert (made.failed, made.bridge.overall.agreement.n) == (True, 3)


def test_one_judge_twice_is_refused_before_anything_is_asked(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, server: ModelServer, asked: EvaluateOptions
) -> None:
    folders = finished(tmp_path_factory, tmp_path)[1]
    with pytest.raises(HarnessError, match="are one judge"):
        bridge_judges(STRICT, STRICT, "r", options=asked, folders=folders)
    assert not server.chat_requests
