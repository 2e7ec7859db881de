"""The public functions on plausible wrong arguments: one error of ours, never a traceback."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import longmemeval as lme
from longmemeval.errors import HarnessError
from tests.pipeline.helpers import colours, folders_in

Call = Callable[..., object]
OFFLINE = "offline/extractive"

WRONG: list[tuple[str, list[object], dict[str, object], str]] = [
    ("load_dataset", [None], {}, "load_dataset(source=None) has the wrong type or value. Give str | Path | Sequence["),
    ("load_dataset", ["sampel"], {}, "Did you mean 'sample'?"),
    ("load_dataset", [[{"a": 1}]], {"name": "../x"}, "cannot be the name of a file"),
    ("prepare", ["sampel", "hybrid"], {}, "Did you mean 'sample'?"),
    ("prepare", ["DATA"], {}, "prepare() needs a memory"),
    ("prepare", ["DATA", "hybird"], {}, "Did you mean 'hybrid'?"),
    ("prepare", ["DATA", None], {}, "prepare(memories=None)"),
    ("prepare", ["DATA", "last-k"], {"options": lme.PrepareOptions(jobs=-1)}, "PrepareOptions(jobs=-1) is too small"),
    ("prepare", ["DATA", "last-k"], {"options": {"jobs": 1}}, "Give PrepareOptions"),
    ("prepare", ["DATA", "last-k"], {"folders": "results"}, "Give Folders | None"),
    ("run", ["DATA", None, OFFLINE], {}, "run(memory=None)"),
    ("run", ["DATA", 3, OFFLINE], {}, "Memory('hybrid', top_k=20)"),
    ("run", ["DATA", "last-k", None], {}, "run(model=None)"),
    ("run", ["DATA", "last-k"], {}, "run() needs the argument 'model'"),
    ("run", ["DATA", "last-k"], {"modle": OFFLINE}, "run() has no argument 'modle'. Did you mean 'model'?"),
    ("run", ["DATA", "last-k", OFFLINE], {"embedder": "hashing"}, "prepare_options=PrepareOptions(embedder="),
    ("run", ["DATA", "last-k", OFFLINE], {"api_base": "http://x"}, "options=RunOptions(model_options=ModelOptions("),
    ("run", ["DATA", "last-k", OFFLINE, 2], {}, "does not take 4 positional arguments"),
    ("run", ["DATA", "last-k", OFFLINE], {"concurrency": 0}, "1 or more"),
    ("run", ["DATA", "last-k", OFFLINE], {"max_cost": "much"}, "run(max_cost='much')"),
    ("run", ["DATA", int, OFFLINE], {}, "add(session)"),
    ("evaluate", [None], {}, "Give Run | str."),
    ("evaluate", ["r"], {"jugde": OFFLINE}, "Did you mean 'judge'?"),
    ("evaluate", ["r"], {}, "Unknown run 'r'"),
    ("compare", [], {}, "No runs to compare"),
    ("compare", [3], {}, "compare(runs=3)"),
    ("retrieve", ["DATA", 3], {}, "retrieve(memories=3)"),
    ("sweep", [None], {}, "Give str | Path"),
    ("sweep", ["nothing.yaml"], {}, "cannot be read"),
    ("reading_configuration", ["cot"], {}, "Literal['direct', 'con'"),
    ("reading_configuration", ["direct"], {"max_tokens": -1}, "is too small"),
    ("reading_configuration", ["direct"], {"template": "nothing.txt"}, "cannot be read"),
    ("folders", [3], {}, "Give Path | None"),
    ("abstains", [None], {}, "Give str."),
    ("write_report", ["r"], {}, "Put it into a list"),
    ("write_report", [["r"]], {"options": "md"}, "Give ReportOptions"),
    ("render_report", [None], {}, "Give Sequence[str]"),
    ("runs", [], {"memroy": "bm25"}, "Did you mean 'memory'?"),
    ("runs", [], {"since": "yesterday"}, "is not a date"),
]
OF_0_2: list[tuple[str, list[object], dict[str, object], str]] = [
    ("prepare", ["DATA", ["hybrid"]], {}, "Write prepare(data, 'bm25', Memory('hybrid', top_k=20))"),
    ("prepare", ["DATA"], {"configurations": ["hybrid"]}, "Write prepare(data, 'bm25', 'hybrid')"),
    ("prepare", ["DATA", "bm25"], {"selection": 3}, "Write prepare(data.sample(50), 'bm25')"),
    ("run", ["DATA", "bm25", OFFLINE], {"selection": 3}, "Write run(data.sample(50), 'bm25', model="),
    ("run", ["DATA", "bm25"], {"model_spec": OFFLINE}, "Write run(data, 'bm25', model='offline/extractive')"),
    ("run", ["DATA", "bm25", OFFLINE], {"options": lme.RunOptions(run_id="r")}, "name='my-run'"),
    ("evaluate", ["r"], {"options": lme.EvaluateOptions(judge="offline/lexical")}, "judge='offline/lexical'"),
    ("evaluate", [], {"run_id": "r"}, "Write evaluate(run, judge='offline/lexical')"),
    ("compare", [["a", "b"]], {}, "Write compare('one-run', 'another')"),
    ("compare", [], {"run_ids": ["a"]}, "Write compare('one-run', 'another')"),
    ("retrieve", ["DATA", ["bm25"]], {}, "Write retrieve(data, 'bm25', Memory('hybrid', top_k=20))"),
]
TAKE_FOLDERS = {"compare", "evaluate", "prepare", "render_report", "retrieve", "run", "runs", "sweep", "write_report"}


@pytest.mark.parametrize(("name", "arguments", "options", "said"), WRONG + OF_0_2)
def test_wrong_arguments_are_refused(
    name: str, arguments: list[object], options: dict[str, object], said: str, tmp_path: Path
) -> None:
    folders = folders_in(tmp_path)
    public: Call = getattr(lme, name)
    given = [colours(tmp_path / "d.json", 2) if one == "DATA" else one for one in arguments]
    with pytest.raises(HarnessError) as caught:
        public(*given, **({"folders": folders} if name in TAKE_FOLDERS else {}) | options)
    assert said in str(caught.value)
    assert list(tmp_path.glob("**/*.jsonl")) == []


@pytest.mark.parametrize(
    ("name", "arguments", "options", "said"),
    [
        ("Memory", [3], {}, "Memory(source=3) has the wrong type or value. Give type | str."),
        ("Memory", ["hybrid"], {"top_kk": 3}, "Did you mean 'top_k'?"),
        ("Memory", ["hybrid"], {"lable": "x"}, "has no parameter 'lable'"),
        ("RunOptions", [], {"protocl": "official"}, "RunOptions has no field 'protocl'. Did you mean 'protocol'?"),
        ("ModelOptions", [], {"timeout": 3}, "Did you mean 'timeout_s'?"),
        ("PrepareOptions", [], {"embeder": "hashing"}, "Did you mean 'embedder'?"),
        ("Run", ["nothing"], {}, "Unknown run 'nothing'"),
        ("Run.open", ["nothing"], {"folder": 1}, "Run.open() has no argument 'folder'. Did you mean 'folders'?"),
        ("DATA.sample", [0], {}, "Data.sample(n=0) is too small"),
        ("DATA.where", [], {"type": "multi-sesion"}, "Did you mean 'multi-session'?"),
        ("DATA.where", [], {"kind": "x"}, "Data.where() has no argument 'kind'"),
    ],
)
def test_methods_and_records_refuse_wrong_arguments_too(
    name: str,
    arguments: list[object],
    options: dict[str, object],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    first, _, method = name.partition(".")
    named: Any = lme.load_dataset("sample") if first == "DATA" else getattr(lme, first)
    call: Call = getattr(named, method) if method else named
    with pytest.raises(HarnessError) as caught:
        call(*arguments, **options)
    assert said in str(caught.value)


def test_text_for_a_number_in_a_record_is_refused(tmp_path: Path) -> None:
    public: Call = lme.RunOptions
    options, folders = public(seed="8"), folders_in(tmp_path)
    run: Call = lme.run
    with pytest.raises(HarnessError, match=r"RunOptions\(seed='8'\)"):
        run(colours(tmp_path / "d.json", 2), "none", OFFLINE, options=options, folders=folders)


def test_paths_may_be_text(tmp_path: Path) -> None:
    public: Call = lme.folders
    assert public(results_dir=str(tmp_path / "r")) == lme.folders(results_dir=tmp_path / "r")


def test_public_functions_are_themselves() -> None:
    assert lme.prepare is lme.prepare
    assert lme.prepare.__name__ == "prepare"
    assert "Raises" in (lme.prepare.__doc__ or "")
