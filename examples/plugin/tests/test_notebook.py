"""The memory system alone, through the public functions of longmemeval."""

from pathlib import Path

import msgspec
from longmemeval_example.notebook import Note, NotebookMemory, words

from longmemeval import load_dataset, prepare, run, settings

PANTRY = Path(__file__).parents[1] / "longmemeval_example" / "pantry.json"


def test_empty_words_are_left_out() -> None:
    assert words("Where is the flour, Ruth?") == {"flour", "ruth"}


def test_it_recalls_what_was_said(tmp_path: Path) -> None:
    folders = settings.folders(prepared_dir=tmp_path / "prepared", results_dir=tmp_path / "results")
    dataset = load_dataset(PANTRY)
    memory = f"{NotebookMemory.__module__}:{NotebookMemory.__name__}"
    prepare(dataset, memory, folders=folders)
    (folder,) = (tmp_path / "prepared").glob("pantry/default/quay")
    notes = msgspec.json.decode((folder / "notebook.json").read_bytes(), type=list[Note])
    assert notes[0].words == ("bread", "freezer", "holds", "loaves", "rye", "two")
    recalled = run(dataset, memory, "offline/extractive", folders=folders).recalls
    assert "q2:0" in recalled["quay-1"]
