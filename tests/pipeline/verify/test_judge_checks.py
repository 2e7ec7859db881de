"""Corrected scores rest on checks of judges: what is edited there changes no score unseen and breaks a signature."""

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longmemeval.core.files import sha256_file
from longmemeval.errors import IntegrityError
from longmemeval.judges.offline.lexical import LEXICAL_JUDGE
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.compare.columns import corrected_text
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.judge_check.check import JudgeChecking
from longmemeval.pipeline.options import CheckOptions
from longmemeval.pipeline.verify.signature import (
    SIGNATURE,
    Signature,
    file_hashes,
    fingerprint,
    private_key,
    signed_bytes,
)
from longmemeval.pipeline.verify.verify import sign, verify
from longmemeval.report.tables.comparison import footnotes
from longmemeval.results.graded.graded_run import GradedRun, load_graded
from longmemeval.results.graded.judge_checks import CHECK, JUDGEMENTS, PLANTS
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.made_once import made_once
from tests.pipeline.finished import copied, finished
from tests.pipeline.helpers import answer_all, colours, prepared_colours
from tests.pipeline.verify.test_signature import environment, make_key
from tests.server import ModelServer
from tests.support import json_lines, longmemeval

JUDGE = "openai/gpt-4o-2024-08-06"


@pytest.fixture
def folders(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Folders:
    """Folders with a graded run `r` and the check of its judge on the same data."""

    def make(whole: Path) -> None:
        dataset, folders = finished(tmp_path_factory, whole, 8)
        JudgeChecking(dataset, LEXICAL_JUDGE, folders=folders).check()

    return copied(made_once(tmp_path_factory, "checked judge", make), tmp_path)[1]


def written(summary: GradedRun) -> str:
    """The corrected score as it is shown."""
    assert summary.judge_check is not None
    return corrected_text(summary.judge_check)


def check_folder(folders: Folders) -> Path:
    (folder,) = (folders.results_dir / "judge-checks").glob("*/*")
    return folder


def edited(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change one document, or each line of a journal."""
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))
        return
    lines = json_lines(path)
    for line in lines:
        change(line)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def every_hash_anew(folder: Path) -> Path:
    """As a forger would who has read the code: both hashes of `check.json` and the name of the folder fit again."""
    plants, labels = sha256_file(folder / PLANTS), sha256_file(folder / JUDGEMENTS)
    edited(folder / CHECK, lambda check: check.update(plants_sha256=plants, judgements_sha256=labels))
    return folder.rename(folder.with_name(f"{folder.name.rpartition('-')[0]}-{plants[:8]}"))


def summary_of(folders: Folders) -> GradedRun:
    (graded,) = load_graded(["r"], folders)
    return graded.summary


@pytest.mark.slow
def test_verify_says_which_check_the_scores_rest_on(folders: Folders) -> None:
    found = verify("r", folders=folders)
    place = check_folder(folders).relative_to(folders.results_dir).as_posix()
    assert (found.problems, found.judge_checks) == ((), (place,))
    (note,) = found.notes
    assert note.startswith(f"Corrected scores rest on {place}: its rates follow from its ")
    assert note.endswith(" plants, which were regenerated too, and its labels by rules")


def test_what_is_said_of_a_check_is_said_once(tmp_path: Path, folders: Folders) -> None:
    answer_all(colours(tmp_path / "colours.json", 8), folders, "s")
    evaluate("s", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    done = longmemeval("verify", "r", "s", cwd=tmp_path, code=0, **environment(folders))
    assert done.stderr.count("Corrected scores rest on") == 1
    assert done.stdout.count("checks passed") == 2


def worse_rates(document: dict[str, Any]) -> None:
    document["rates"]["wrong"] |= {"credit": 0.4, "interval": [0.3, 0.5]}


def test_rates_in_the_file_correct_nothing(tmp_path: Path, folders: Folders) -> None:
    before = summary_of(folders).judge_check
    edited(check_folder(folders) / CHECK, worse_rates)
    assert summary_of(folders).judge_check == before
    assert before is not None
    (problem,) = verify("r", folders=folders).problems
    assert problem.startswith(f"{before.check}/{CHECK}: {PLANTS} and {JUDGEMENTS} give other rates (wrong.credit")
    done = longmemeval("verify", "r", cwd=tmp_path, code=3, **environment(folders))
    assert f"{CHECK}: " in done.stderr


def turned(line: dict[str, Any]) -> None:
    """What was a right answer is a wrong one, or what passed fails."""
    name = "right" if "right" in line else "label"
    line[name] = not line[name]


def other_text(line: dict[str, Any]) -> None:
    line["text"] += "!"


@pytest.mark.variants
@pytest.mark.parametrize(
    ("file", "change"),
    [(PLANTS, turned), (PLANTS, other_text), (JUDGEMENTS, turned)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_edited_plants_and_labels_are_refused(
    tmp_path: Path, folders: Folders, file: str, change: Callable[[dict[str, Any]], None]
) -> None:
    """Nothing is corrected by them, the warning says so, and what it says to do helps."""
    folder = check_folder(folders)
    edited(folder / file, change)
    summary = summary_of(folders)
    assert summary.judge_check is None
    (warning,) = [one.text for one in summary.warnings if one.code == "unchecked-judge"]
    place = folder.relative_to(folders.results_dir).as_posix()
    assert warning.startswith(f"A stored judge check was ignored: {place}/{file}: was changed after the check")
    assert any(problem.startswith(f"{place}/{file}: ") for problem in verify("r", folders=folders).problems)
    data = colours(tmp_path / "colours.json", 8)
    with pytest.raises(IntegrityError, match="or delete this folder"):
        JudgeChecking(data, LEXICAL_JUDGE, folders=folders).check()
    for path in folder.iterdir():
        path.unlink()
    command = warning.partition("`longmemeval ")[2].partition("`")[0].split()
    longmemeval(*command, cwd=tmp_path, code=0, **environment(folders))
    assert summary_of(folders).judge_check is not None
    assert not verify("r", folders=folders).problems


def without_failed(folder: Path) -> None:
    """The right plants that failed and the wrong ones that passed were never judged."""
    lines = json_lines(folder / JUDGEMENTS)
    left = lines[len(lines) // 2 :]
    (folder / JUDGEMENTS).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in left))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "forge", "expected"),
    [
        (PLANTS, lambda folder: edited(folder / PLANTS, turned), "is not what is planted in these data with seed 0"),
        (JUDGEMENTS, lambda folder: edited(folder / JUDGEMENTS, turned), "does not follow from what the judge said"),
        (JUDGEMENTS, without_failed, "was never judged"),
        (CHECK, lambda folder: edited(folder / CHECK, lambda one: one.update(of_questions=9)), "which has 8"),
        (CHECK, lambda folder: edited(folder / CHECK, lambda one: one.update(seed=1)), "planted in these data"),
    ],
)
def test_a_forger_who_makes_every_hash_anew_is_found(
    folders: Folders, file: str, forge: Callable[[Path], None], expected: str
) -> None:
    folder = check_folder(folders)
    forge(folder)
    folder = every_hash_anew(folder)
    problems = verify("r", folders=folders).problems
    assert any(expected in problem for problem in problems)
    assert all(f"{folder.name}/" in problem for problem in problems)
    assert any(f"/{file}: " in problem for problem in problems) or file == CHECK


def test_labels_of_a_model_have_to_follow_from_its_replies(tmp_path: Path) -> None:
    data, folders = prepared_colours(tmp_path, 4)
    answer_all(data, folders)
    with ModelServer(lambda body: "yes") as server:
        options = ModelOptions(api_base=server.url, max_attempts=1)
        evaluate("r", options=EvaluateOptions(judge=JUDGE, model_options=options), folders=folders)
        JudgeChecking(data, JUDGE, options=CheckOptions(model_options=options), folders=folders).check()
    folder = check_folder(folders)
    found = verify("r", folders=folders)
    assert not found.problems
    assert "its labels from the stored replies" in found.notes[0]
    edited(folder / JUDGEMENTS, turned)
    every_hash_anew(folder)
    problems = verify("r", folders=folders).problems
    assert any("does not follow from what the judge said" in problem for problem in problems)


def test_a_check_of_an_earlier_version_is_refused_with_the_command(tmp_path: Path, folders: Folders) -> None:
    def as_then(document: dict[str, Any]) -> None:
        document["format"] = 1
        del document["judgements_sha256"], document["of_questions"]

    folder = check_folder(folders)
    edited(folder / CHECK, as_then)
    summary = summary_of(folders)
    assert summary.judge_check is None
    (warning,) = [one.text for one in summary.warnings if one.code == "unchecked-judge"]
    assert "an earlier version made it" in warning
    found = verify("r", folders=folders)
    assert (found.problems, found.judge_checks) == ((), ())
    assert "is of an earlier version and corrects no score; `longmemeval judge check" in found.notes[0]
    command = warning.partition("`longmemeval ")[2].partition("`")[0].split()
    longmemeval(*command, cwd=tmp_path, code=0, **environment(folders))
    assert summary_of(folders).judge_check is not None


def test_a_signature_covers_the_check(tmp_path: Path, folders: Folders) -> None:
    private, public = make_key(tmp_path, "key")
    made = sign("r", private, folders=folders)
    folder = check_folder(folders)
    place = folder.relative_to(folders.results_dir).as_posix()
    assert set(made.checks) == {f"{place}/{name}" for name in (PLANTS, JUDGEMENTS, CHECK)}
    assert not verify("r", public_key=public, folders=folders).problems
    edited(folder / CHECK, lambda check: check.update(of_questions=8))
    (problem,) = verify("r", public_key=public, folders=folders).problems
    assert problem == f"{place}/{CHECK}: was changed after it was signed"
    (folder / CHECK).unlink()
    assert f"{place}/{CHECK}: was signed and is missing" in verify("r", public_key=public, folders=folders).problems
    done = longmemeval("verify", "r", "--public-key", public, cwd=tmp_path, code=3, **environment(folders))
    assert f"{place}/{CHECK}" in done.stderr.replace("\n", "")


@pytest.mark.slow
def test_a_check_made_after_signing_is_not_under_the_signature(tmp_path: Path, folders: Folders) -> None:
    private, public = make_key(tmp_path, "key")
    data, folder = colours(tmp_path / "colours.json", 8), check_folder(folders)
    for path in folder.iterdir():
        path.unlink()
    sign("r", private, folders=folders)
    JudgeChecking(data, LEXICAL_JUDGE, folders=folders).check()
    problems = verify("r", public_key=public, folders=folders).problems
    assert len(problems) == 3
    assert all(problem.endswith(": is not covered by the signature") for problem in problems)
    sign("r", private, folders=folders)
    assert not verify("r", public_key=public, folders=folders).problems


@pytest.mark.slow
def test_a_signature_of_before_holds_and_says_what_it_does_not_cover(tmp_path: Path, folders: Folders) -> None:
    private, public = make_key(tmp_path, "key")
    key = private_key(private)
    folder = folders.results_dir / "r"
    files = file_hashes(folder)
    signed = base64.b64encode(key.sign(signed_bytes("r", files, None))).decode()
    written = msgspec.to_builtins(Signature(1, "r", files, fingerprint(key.public_key()), signed))
    del written["checks"]
    (folder / SIGNATURE).write_text(json.dumps(written))
    found = verify("r", public_key=public, folders=folders)
    assert not found.problems
    assert found.notes[-1].startswith("An earlier version signed the run: the check of the judge is not covered")
    # A newer signature cannot be taken for an older one, which would leave the checks out.
    sign("r", private, folders=folders)
    edited(folder / SIGNATURE, lambda document: document.update(format=1, checks={}))
    assert "is not by the owner" in verify("r", public_key=public, folders=folders).problems[0]


@pytest.mark.slow
def test_rates_of_other_data_and_of_some_questions_are_called_that(tmp_path: Path) -> None:
    data, folders = prepared_colours(tmp_path, 12)
    answer_all(data, folders)
    evaluate("r", options=EvaluateOptions(judge=LEXICAL_JUDGE), folders=folders)
    JudgeChecking(colours(tmp_path / "others.json", 30), LEXICAL_JUDGE, folders=folders).check()
    elsewhere = summary_of(folders)
    assert elsewhere.judge_check is not None
    assert elsewhere.judge_check.other_data
    assert written(elsewhere).endswith("]*")
    (note,) = [one for one in footnotes([elsewhere]) if one.startswith("Judge check: ")]
    assert "n = 60, all 30 questions of others" in note
    assert "come from another dataset, so the judge's error rates may differ here" in note
    found = verify("r", folders=folders)
    assert not found.problems
    assert "its data (others) are not available to regenerate them" in found.notes[0]
    # Fewer plants of the run's own data come before more of others.
    options = CheckOptions(seed=3)
    JudgeChecking(data, LEXICAL_JUDGE, selection=Selection(limit=9), options=options, folders=folders).check()
    own = summary_of(folders)
    assert not written(own).endswith("*")
    (note,) = [one for one in footnotes([own]) if one.startswith("Judge check: ")]
    assert "n = 18, 9 of the 12 questions of colours, seed 3" in note
    assert "ANOTHER" not in note
    assert not verify("r", folders=folders).problems


def test_a_score_that_cannot_be_corrected_says_why(tmp_path: Path) -> None:
    data, folders = prepared_colours(tmp_path, 8)
    answer_all(data, folders)

    def tosses(body: dict[str, Any]) -> str:
        return "yes" if hashlib.sha256(body["messages"][-1]["content"].encode()).digest()[0] % 2 else "no"

    with ModelServer(tosses) as server:
        options = ModelOptions(api_base=server.url, max_attempts=1)
        evaluate("r", options=EvaluateOptions(judge=JUDGE, model_options=options), folders=folders)
        JudgeChecking(data, JUDGE, options=CheckOptions(model_options=options), folders=folders).check()
    summary = summary_of(folders)
    assert written(summary) == "not possible"
    told = "r: the score cannot be corrected for judge errors: the test answers do not show"
    assert any(one.startswith(told) for one in footnotes([summary]))
