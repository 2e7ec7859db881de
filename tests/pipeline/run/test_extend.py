"""`run --extend`: a finished run goes on with more questions of the same sample, as if it had begun with them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.dataset import Dataset
from longmemeval.errors import HarnessError, IntegrityError
from longmemeval.pipeline.evaluate.evaluate import EvaluateOptions, evaluate
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.run.plan import RunOptions
from longmemeval.pipeline.run.run import run
from longmemeval.pipeline.verify.verify import verify
from longmemeval.reading.configuration import reading_configuration
from longmemeval.results.manifest import read_manifest
from longmemeval.results.selection import Selection
from longmemeval.settings import Folders
from tests.pipeline.helpers import MODEL, compare, folders_in
from tests.support import longmemeval

LEXICAL = EvaluateOptions(judge="offline/lexical")


@pytest.fixture
def begun(tmp_path: Path) -> tuple[Dataset, Folders]:
    """Run `r` over five questions of the sample, graded."""
    dataset, folders = load_dataset("sample", tmp_path / "data"), folders_in(tmp_path)
    prepare(dataset, ["bm25"], selection=Selection(sample=12), options=PrepareOptions(jobs=1), folders=folders)
    answer(dataset, folders, 5)
    evaluate("r", options=LEXICAL, folders=folders)
    return dataset, folders


def answer(dataset: Dataset, folders: Folders, sample: int, run_id: str = "r", **options: object) -> int:
    """How many questions were answered now."""
    given = structs.replace(RunOptions(run_id=run_id), **options)
    return run(
        dataset, "bm25", MODEL, selection=Selection(sample=sample), options=given, folders=folders
    ).newly_answered


@pytest.mark.slow
def test_only_the_new_questions_are_asked_and_judged(begun: tuple[Dataset, Folders]) -> None:
    dataset, folders = begun
    folder = folders.results_dir / "r"
    first = (folder / "answers.jsonl").read_bytes()
    assert answer(dataset, folders, 12, extend=True) == 7
    assert (folder / "answers.jsonl").read_bytes().startswith(first)
    manifest = read_manifest(folder)
    assert (manifest.status, len(manifest.question_ids), manifest.selection) == ("completed", 12, Selection(sample=12))
    assert [(one.questions, one.selection) for one in manifest.extended_from] == [(5, Selection(sample=5))]
    assert len(manifest.fixtures) == len(set(manifest.question_ids))
    assert manifest.totals["answered"] == 12
    with pytest.raises(IntegrityError, match="longmemeval evaluate"):
        compare(["r"], folders=folders)
    graded = evaluate("r", options=LEXICAL, folders=folders)
    assert (graded.newly_judged, graded.metrics.overall.n) == (7, 12)
    assert verify("r", folders=folders).problems == ()
    # The same as if they had been there from the start.
    answer(dataset, folders, 12, "whole")
    whole = evaluate("whole", options=LEXICAL, folders=folders).metrics
    assert (whole.overall, whole.by_type) == (graded.metrics.overall, graded.metrics.by_type)


@pytest.mark.slow
def test_the_same_again_does_nothing(begun: tuple[Dataset, Folders]) -> None:
    dataset, folders = begun
    assert answer(dataset, folders, 5, extend=True) == 0
    assert read_manifest(folders.results_dir / "r").extended_from == ()


@pytest.mark.slow
def test_extended_twice(begun: tuple[Dataset, Folders]) -> None:
    dataset, folders = begun
    answer(dataset, folders, 8, extend=True)
    answer(dataset, folders, 12, extend=True)
    manifest = read_manifest(folders.results_dir / "r")
    assert [one.questions for one in manifest.extended_from] == [5, 8]
    assert evaluate("r", options=LEXICAL, folders=folders).newly_judged == 7
    assert verify("r", folders=folders).problems == ()


@pytest.mark.slow
def test_scores_of_fewer_questions_are_old_though_no_new_one_has_an_answer(
    begun: tuple[Dataset, Folders], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, folders = begun

    def interrupted(*arguments: object) -> Callable[[], None]:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("longmemeval.reading.reader.Reader.read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            answer(dataset, folders, 12, extend=True)
    graded = evaluate("r", options=LEXICAL, folders=folders)
    assert (graded.metrics.overall.n, graded.metrics.overall.not_evaluated, graded.newly_judged) == (12, 7, 0)
    assert answer(dataset, folders, 12, extend=True) == 7


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selection", "options", "said"),
    [
        (Selection(sample=12, seed=1), {}, r"cannot be extended.* of its 5 are not among them.*--sample 5 --seed 0"),
        (Selection(sample=3), {}, r"cannot be extended.*2 of its 5 are not"),
        (Selection(sample=12), {"reading": reading_configuration("con")}, r"started with other settings.*method"),
    ],
)
def test_what_is_not_nested_or_not_the_same_is_refused(
    begun: tuple[Dataset, Folders], selection: Selection, options: dict[str, object], said: str
) -> None:
    dataset, folders = begun
    prepare(dataset, ["bm25"], selection=selection, options=PrepareOptions(jobs=1), folders=folders)
    given = structs.replace(RunOptions(run_id="r", extend=True), **options)
    before = (folders.results_dir / "r" / "run.json").read_bytes()
    with pytest.raises(HarnessError, match=said):
        run(dataset, "bm25", MODEL, selection=selection, options=given, folders=folders)
    assert (folders.results_dir / "r" / "run.json").read_bytes() == before


@pytest.mark.slow
def test_without_the_option_other_questions_are_refused(begun: tuple[Dataset, Folders]) -> None:
    dataset, folders = begun
    with pytest.raises(HarnessError, match="--extend r"):
        answer(dataset, folders, 12)


def test_on_the_command_line(tmp_path: Path) -> None:
    words = ("-d", "sample", "-m", "bm25")
    asked = ("run", *words, "--model", MODEL, "--sample", "4")
    longmemeval("prepare", *words, "--sample", "6", cwd=tmp_path)
    longmemeval(*asked, "--run-id", "r", cwd=tmp_path)
    done = longmemeval(*asked[:-1], "6", "--extend", "r", cwd=tmp_path)
    assert "6 of 6 questions answered" in done.stdout
    assert "(2 now)" in done.stdout
    other = longmemeval(*asked[:-1], "6", "--extend", "s", cwd=tmp_path, code=2)
    assert "Unknown run 's'" in other.stderr
    both = longmemeval(*asked, "--extend", "r", "--run-id", "s", cwd=tmp_path, code=2)
    assert "--run-id and --extend name different runs" in both.stderr
