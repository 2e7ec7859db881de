"""The public functions on plausible wrong arguments: one error of ours, never a traceback."""

from collections.abc import Callable
from pathlib import Path

import pytest

import longmemeval as lme
from longmemeval.errors import HarnessError
from tests.pipeline.helpers import colours, folders_in

Call = Callable[..., object]

WRONG: list[tuple[str, list[object], dict[str, object], str]] = [
    ("load_dataset", [None], {}, "load_dataset(name_or_path=None) has the wrong type or value. Give str | Path."),
    ("load_dataset", ["sampel"], {}, "Did you mean 'sample'?"),
    (
        "prepare",
        ["sample", ["hybrid"]],
        {},
        "prepare(dataset='sample') has the wrong type or value. Give Dataset (`load",
    ),
    ("prepare", ["DATA", "hybrid"], {}, "Put it into a list"),
    ("prepare", ["DATA", ["hybird"]], {}, "Did you mean 'hybrid'?"),
    ("prepare", ["DATA", [None]], {}, "prepare(configurations=[None])"),
    ("Selection", [-1], {}, "--limit must be at least 1"),
    ("prepare", ["DATA", ["last-k"]], {"selection": 3}, "Give Selection"),
    ("prepare", ["DATA", ["last-k"]], {"options": lme.PrepareOptions(jobs=-1)}, "PrepareOptions(jobs=-1) is too small"),
    ("prepare", ["DATA", ["last-k"]], {"options": {"jobs": 1}}, "Give PrepareOptions"),
    ("prepare", ["DATA", ["last-k"]], {"where": "results"}, "Give Folders | None"),
    ("run", ["DATA", None, "offline/extractive"], {}, "run(memory=None)"),
    ("run", ["DATA", "last-k", None], {}, "run(model_spec=None)"),
    ("run", ["DATA", "last-k", "offline/extractive"], {"options": lme.RunOptions(concurrency=0)}, "1 or more"),
    ("evaluate", [Path("r")], {}, "Give str."),
    ("evaluate", [None], {}, "Give str."),
    ("compare", ["r"], {}, "Put it into a list"),
    ("compare", [[]], {}, "nothing to compare"),
    ("compare_runs", [["r"]], {}, "Give Sequence[Evaluation]"),
    ("retrieve", ["DATA", "bm25"], {}, "Put it into a list"),
    ("sweep", [None], {}, "Give str | Path"),
    ("sweep", ["nothing.yaml"], {}, "cannot be read"),
    ("resolve_configuration", ["hybrid", {"top_k": 5}], {}, "Give Sequence[str]"),
    ("resolve_configuration", ["hybrid", ["top_k=-5"]], {}, "top_k = -5"),
    ("reading_configuration", ["cot"], {}, "Literal['direct', 'con'"),
    ("reading_configuration", ["direct"], {"max_tokens": -1}, "is too small"),
    ("reading_configuration", ["direct"], {"template": "nothing.txt"}, "cannot be read"),
    ("folders", [3], {}, "Give Path | None"),
    ("abstains", [None], {}, "Give str."),
    ("write_report", ["r"], {}, "Put it into a list"),
    ("write_report", [["r"]], {"options": "md"}, "Give ReportOptions"),
    ("render_report", [None], {}, "Give Sequence[str]"),
]


@pytest.mark.parametrize(("name", "arguments", "options", "said"), WRONG)
def test_wrong_arguments_are_refused(
    name: str, arguments: list[object], options: dict[str, object], said: str, tmp_path: Path
) -> None:
    where = folders_in(tmp_path)
    public: Call = getattr(lme, name)
    given = [colours(tmp_path / "d.json", 2) if one == "DATA" else one for one in arguments]
    takes_folders = name in (
        "compare_runs",
        "prepare",
        "run",
        "evaluate",
        "compare",
        "retrieve",
        "sweep",
        "write_report",
        "render_report",
    )
    with pytest.raises(HarnessError) as caught:
        public(*given, **({"where": where} if takes_folders else {}) | options)
    assert said in str(caught.value)
    assert list(tmp_path.glob("**/*.jsonl")) == []


def test_text_for_a_number_in_a_record_is_refused(tmp_path: Path) -> None:
    public: Call = lme.RunOptions
    options, where = public(concurrency="8"), folders_in(tmp_path)
    run: Call = lme.run
    with pytest.raises(HarnessError, match=r"RunOptions\(concurrency='8'\)"):
        run(colours(tmp_path / "d.json", 2), "none", "offline/extractive", options=options, where=where)
    selection: Call = lme.Selection
    with pytest.raises(HarnessError, match="--limit must be at least 1"):
        selection(limit="3")


def test_paths_may_be_text(tmp_path: Path) -> None:
    public: Call = lme.folders
    assert public(results_dir=str(tmp_path / "r")) == lme.folders(results_dir=tmp_path / "r")


def test_public_functions_are_themselves() -> None:
    assert lme.prepare is lme.prepare
    assert lme.prepare.__name__ == "prepare"
    assert "Raises" in (lme.prepare.__doc__ or "")
