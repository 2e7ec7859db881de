"""LoCoMo's official protocol of retrieval: memories rank the dialog, the official recall scores them."""

from pathlib import Path

import pytest

from longmemeval.benchmarks.locomo.loader import LocomoDataset
from longmemeval.errors import HarnessError
from longmemeval.measures.notation import Granularity
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from longmemeval.report.tables.retrieval import retrieval_footnotes
from longmemeval.results.manifest import read_manifest
from longmemeval.settings import Folders
from tests.benchmarks.locomo.test_loader import make_conversation, open_conversations
from tests.pipeline.helpers import checked, folders_in


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[LocomoDataset, Folders]:
    dataset, folders = open_conversations(tmp_path, make_conversation()), folders_in(tmp_path)
    prepare(dataset, ["bm25"], options=PrepareOptions(jobs=1), folders=folders)
    return dataset, folders


@pytest.mark.parametrize(
    ("level", "measures"),
    [("turn", ["recall@5", "recall@10", "recall@25", "recall@50"]), ("session", ["recall@2", "recall@5", "recall@10"])],
)
def test_its_figures_are_the_official_recall_alone(
    prepared: tuple[LocomoDataset, Folders], level: Granularity, measures: list[str]
) -> None:
    dataset, folders = prepared
    options = RetrievalOptions(protocol="official", granularity=level, run_id="official")
    report = retrieve(dataset, ["bm25"], options=options, folders=folders)
    (result,) = report.runs[0].results
    assert (result.protocol, result.granularity, result.gold_rule) == ("official", level, "locomo official")
    assert list(result.measures) == measures
    standard = RetrievalOptions(granularity=level, measures=("recall",), cutoffs=(2, 5, 10, 25, 50), run_id="standard")
    alike, _ = retrieve(dataset, ["bm25"], options=standard, folders=folders).runs[0].results
    assert result.measures == {name: alike.measures[name] for name in measures}
    assert result.denominator == alike.denominator
    assert "Any memory may rank." in " ".join(retrieval_footnotes(report))


def test_it_ranks_turns_unless_told_otherwise_and_verifies(prepared: tuple[LocomoDataset, Folders]) -> None:
    dataset, folders = prepared
    report = retrieve(dataset, ["bm25"], options=RetrievalOptions(protocol="official", run_id="r"), folders=folders)
    assert report.granularity == "turn"
    folder = folders.results_dir / "r"
    settings = read_manifest(folder).settings.plain
    assert (settings["protocol"], settings["preparation"]) == ("official", "default")
    assert set(checked(folder, dataset)) == {None}
    file = folder / "metrics" / "retrieval-turn.json"
    file.write_text(file.read_text().replace('"mean": 0.', '"mean": 0.1', 1))
    assert any("gives other figures" in (one or "") for one in checked(folder, dataset))


def test_what_it_does_not_take_is_refused(prepared: tuple[LocomoDataset, Folders]) -> None:
    dataset, folders = prepared
    for options, message in (
        (RetrievalOptions(protocol="official", log=Path("x")), "--log is for official protocols with their own corpus"),
        (RetrievalOptions(protocol="official", measures=("mrr",)), "its own measures and cutoffs"),
    ):
        with pytest.raises(HarnessError, match=message):
            retrieve(dataset, ["bm25"], options=options, folders=folders)
