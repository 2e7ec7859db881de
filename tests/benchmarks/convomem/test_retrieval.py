"""How rankings of ConvoMem are scored, and that it has no official protocol of retrieval."""

from pathlib import Path

import pytest

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.errors import HarnessError
from longmemeval.measures.notation import Granularity
from longmemeval.pipeline.prepare.prepare import PrepareOptions, prepare
from longmemeval.pipeline.retrieval.retrieve import RetrievalOptions, retrieve
from tests.benchmarks.convomem.files import write_folder
from tests.pipeline.helpers import checked, folders_in


@pytest.mark.slow
@pytest.mark.parametrize(
    ("level", "gold"),
    [
        ("session", "the question's evidence conversations"),
        ("turn", "messages that say an evidence text"),
    ],
)
def test_gold_is_named_by_what_it_is(tmp_path: Path, level: Granularity, gold: str) -> None:
    dataset, folders = load_dataset(write_folder(tmp_path / "convomem")), folders_in(tmp_path)
    prepare(dataset, ["last-k"], options=PrepareOptions(jobs=1), folders=folders)
    options = RetrievalOptions(granularity=level, run_id="r")
    (result,) = retrieve(dataset, ["last-k"], options=options, folders=folders).runs[0].results
    assert result.gold_rule == gold
    folder = folders.results_dir / "r"
    file = folder / "metrics" / f"retrieval-{level}.json"
    assert not any(checked(folder, dataset))
    file.write_text(file.read_text().replace(f'"gold": "{gold}"', '"gold": "something else"'))
    assert sum(bool(one) for one in checked(folder, dataset)) == 1


def test_there_is_no_official_protocol(tmp_path: Path) -> None:
    dataset = load_dataset(write_folder(tmp_path / "convomem"))
    options = RetrievalOptions(protocol="official")
    with pytest.raises(HarnessError, match="ConvoMem has no official protocol of retrieval"):
        retrieve(dataset, ["bm25"], options=options, folders=folders_in(tmp_path))
