"""Each verb passes its options on: every option arrives in the argument of its name, where the work is done.

The verbs run in this process; the functions that do their work are doors here, which write down with what they are
called. What an option then does is tested where it is done.
"""

import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from unittest.mock import MagicMock

import pytest
import typer
import typer.main
from msgspec import Struct
from msgspec.structs import asdict
from pydantic import BaseModel
from typer.core import TyperCommand, TyperGroup

from longmemeval.benchmarks.registry import load_dataset
from longmemeval.cli.main import app
from longmemeval.cli.options import add_verb
from longmemeval.core.options import Flag
from longmemeval.memory.configuration import resolve_configuration

if TYPE_CHECKING:
    from typer._click.core import Parameter

Words = Mapping[str, str | None]
"""Values by the name of the parameter; "" for a switch, None to leave out what the verb is usually given."""


class Arrived(BaseException):
    """The work would begin here."""


def stop(*_: object, **__: object) -> None:
    raise Arrived


def go_on(*_: object, **__: object) -> object:
    return MagicMock()


def same_runs(ids: list[str], *_: object, **__: object) -> list[str]:
    return list(ids) or ["swept"]


Doors = Mapping[str, Callable[..., object]]


@dataclass(frozen=True)
class Verb:
    """What a verb is given whatever else, and the functions that do its work."""

    doors: Doors
    given: Words = field(default_factory=dict)


def works_in(*names: str, **given: str) -> Verb:
    return Verb(dict.fromkeys(names, stop), given)


ON_THE_WAY: Doors = {
    "longmemeval.pipeline.progress:show_progress": lambda style: None,
    "longmemeval.benchmarks.registry:load_dataset": lambda *_: load_dataset("sample", None),
    "longmemeval.pipeline.run.plan:load_dataset": lambda *_: load_dataset("sample", None),
    "longmemeval.memory.configuration:resolve_configuration": lambda *_: resolve_configuration("bm25"),
    "longmemeval.pipeline.run.plan:resolve_configuration": lambda *_: resolve_configuration("bm25"),
    "longmemeval.report.charts.probes:check_drawable": lambda output: None,
    "longmemeval.results.listing:named_runs": same_runs,
    "longmemeval.results.compared:in_order_named": same_runs,
    "longmemeval.results.compared:baseline_first": same_runs,
}
"""What verbs ask before the work begins: it is written down too."""
_COMPARED: Doors = {
    "longmemeval.results.graded.graded_run:load_graded": lambda *_, **__: [MagicMock()],
    "longmemeval.pipeline.compare.compare:compare_runs": go_on,
    "longmemeval.pipeline.compare.baseline:load_baseline": go_on,
    "longmemeval.pipeline.compare.baseline:compare_to_baseline": go_on,
    "longmemeval.pipeline.compare.baseline:regression": lambda *_: None,
    "longmemeval.pipeline.compare.baseline:save_baseline": lambda *_: None,
    "longmemeval.report.tables.comparison:against_line": lambda *_: "",
    "longmemeval.report.text:published_for": lambda *_: (),
    "longmemeval.report.text:write_summary": lambda *_: "",
    "longmemeval.report.tables.abilities:ability_table": stop,
    "longmemeval.report.documents:comparison_document": stop,
    "longmemeval.cli.verbs.compare:show": lambda *_: None,
}
_GRADED: Doors = {
    "longmemeval.pipeline.merge.to_grade:runs_to_grade": lambda *_: MagicMock(unknown=(), missing=(), run_ids=["r"]),
    "longmemeval.pipeline.merge.to_grade:without_trace": go_on,
    "longmemeval.pipeline.evaluate.several:judge_run": stop,
    "longmemeval.pipeline.evaluate.estimate:estimate_grading": stop,
}
_ANSWERED: Doors = {
    "longmemeval.pipeline.run.like:run_like": stop,
    "longmemeval.pipeline.run.estimate:estimate_run": go_on,
    "longmemeval.pipeline.run.sample_size:sample_size": stop,
    "longmemeval.cli.verbs.run:show_run": stop,
    "longmemeval.pipeline.run.repeats:run_repeats": stop,
    "longmemeval.pipeline.run.run:execute": stop,
}
_CHECKED: Doors = {
    "longmemeval.pipeline.judge_check.check:JudgeChecking": go_on,
    "longmemeval.pipeline.estimate.stages:total_of": stop,
    "longmemeval.cli.verbs.judge:show_stages": stop,
}
_TRIED: Doors = {
    "longmemeval.api.claims:ClaimTrial.__init__": lambda *_, **__: None,
    "longmemeval.api.claims:ClaimTrial.attempt": stop,
    "longmemeval.api.claims:ClaimTrial.estimate": stop,
}
_FACTS: Doors = {
    "longmemeval.pipeline.inspect.facts:HistoryFacts.__init__": lambda *_, **__: None,
    "longmemeval.pipeline.inspect.facts:HistoryFacts.facts": stop,
    "longmemeval.pipeline.inspect.facts:HistoryFacts.about": stop,
}
_LISTED: Doors = {
    "longmemeval.results.listing:list_runs": lambda *_: [MagicMock()],
    "longmemeval.results.graded.graded_run:warnings_of": stop,
    "longmemeval.cli.verbs.runs:show_progress": stop,
}
_LABELLED = "longmemeval.benchmarks.conversations.importing"
VERBS = {
    "demo": works_in("longmemeval.pipeline.demo:run_demo"),
    "datasets list": works_in("longmemeval.benchmarks.registry:presence"),
    "datasets download": Verb(
        {
            "longmemeval.benchmarks.catalogue:catalogue_entry": go_on,
            "longmemeval.benchmarks.catalogue:data_file": stop,
        },
        {"name": "sample"},
    ),
    "datasets verify": works_in("longmemeval.benchmarks.registry:verify_data", name="sample"),
    "datasets stats": works_in("longmemeval.benchmarks.stats:dataset_stats", name="sample"),
    "datasets import": works_in(f"{_LABELLED}:import_chats", exports="export.json", output="mine"),
    "datasets label": works_in(f"{_LABELLED}:proposals", folder="mine"),
    "prepare": works_in("longmemeval.pipeline.prepare.prepare:prepare", dataset="sample", memory="bm25"),
    "run": Verb(_ANSWERED, {"dataset": "sample", "memory": "bm25", "model": "offline/extractive"}),
    "evaluate": Verb(_GRADED, {"run_ids": "r0"}),
    "runs": Verb(_LISTED),
    "status": works_in("longmemeval.pipeline.status:watch_named", "longmemeval.pipeline.status:watch_recent"),
    "inspect": works_in("longmemeval.pipeline.inspect.inspect:inspect", identifier="q0"),
    "facts": Verb(_FACTS, {"identifier": "q0"}),
    "retrieval": works_in("longmemeval.pipeline.retrieval.retrieve:retrieve", dataset="sample", memory="bm25"),
    "probe": works_in("longmemeval.pipeline.probe.probe:probe", memory="bm25"),
    "view": works_in("longmemeval.view.app:serve", "longmemeval.report.write:write_report"),
    "compare": Verb(_COMPARED, {"run_ids": "r0"}),
    "report": works_in("longmemeval.report.write:write_report", run_ids="r0"),
    "sweep": works_in("longmemeval.pipeline.sweep.sweep:sweep", file="grid.yaml"),
    "claims list": works_in("longmemeval.pipeline.claims.state:claims_on"),
    "claims show": Verb(
        {
            "longmemeval.pipeline.claims.catalogue:claim_named": go_on,
            "longmemeval.pipeline.claims.state:state_of": stop,
        },
        {"name": "longest-option"},
    ),
    "claims table": works_in("longmemeval.pipeline.claims.state:chosen_claims"),
    "claims try": Verb(_TRIED, {"name": "longest-option"}),
    "verify": works_in("longmemeval.pipeline.verify.verify:verify_all", subjects="r0"),
    "sign": works_in("longmemeval.pipeline.verify.verify:sign", run="r0", key="key.pem"),
    "judge check": Verb(_CHECKED, {"dataset": "sample"}),
    "judge bridge": works_in(
        "longmemeval.pipeline.evaluate.bridging:bridge_judges",
        "longmemeval.pipeline.evaluate.bridging:check_judges",
        old="offline/lexical",
        new="offline/other",
        run_ids="r0",
    ),
    "import": works_in(
        "longmemeval.results.formats.hypotheses:import_official",
        "longmemeval.cli.verbs.import_run:import_harness",
        file="answers.jsonl",
        dataset="sample",
    ),
    "export": works_in("longmemeval.results.formats.export:export_runs", run_ids="r0", format="csv"),
    "merge": works_in("longmemeval.pipeline.merge.merge:merge", run_ids="r0"),
    "board build": works_in("longmemeval.report.board:write_board", folders="results", output="board"),
    "memory init": works_in("longmemeval.memory.external.contract_check:write_example", file="mine.py"),
    "memory install": works_in("longmemeval.memory.products.install:install", name="chroma", python="python3"),
    "memory check": works_in("longmemeval.memory.external.contract_check:MemoryCheck", spec="bm25"),
    "plugins": works_in("longmemeval.pipeline.extensions:all_plugins"),
}

VALUES: dict[str, str] = {
    "temperature": "0.5",
    "top_p": "0.5",
    "model_option": "key=value",
    **dict.fromkeys(("as_of", "believed_at", "date"), "2024-03-01"),
    **dict.fromkeys(("model", "query_model"), "offline/given"),
    "limits": "limits.yaml",
    "template": "template.txt",
    "granularity": "session",
    "import: format": "mem0-benchmarks",
    "compare: format": "github",
    "shard": "2/3",
    "margin": "0.25",
    "probe: output": "given.svg",
    "memory install: name": "mem0",
}
"""What is typed for a parameter where its type does not say it."""

ARRIVES_AS: dict[str, str | tuple[str, object]] = {
    # Several options make one value.
    "address": ("executor", "dask@given-address"),
    "batch": ("poll_s", None),
    "budget": ("overrides", "budget=7"),
    "reranker": ("overrides", "reranker=given-reranker"),
    "memory check: profile": ("overrides", "profile=given-profile"),
    "limits": ("rpm", 1234),
    "no_save_prompts": ("save_prompts", False),
    "no_open": ("open_browser", False),
    "extend": ("extend", True),
    "pairs": ("family", "pairs"),
    "view: export": ("output", "given-export/index.html"),
    # The command line has shorter names, or those of another place.
    "settings": "overrides",
    "set": "overrides",
    "memory": "name_or_file",
    "runs: memory": "memory",
    "memory check: spec": "name_or_file",
    "dataset": "name_or_path",
    **{f"{verb}: dataset": "dataset" for verb in ("evaluate", "runs", "compare", "report", "claims try", "verify")},
    **{f"{verb}: dataset": "dataset" for verb in ("export", "merge")},
    "board build: dataset": "datasets",
    "judge bridge: dataset": "dataset",
    "board build: folders": "paths",
    "datasets verify: name": "name_or_path",
    "datasets stats: name": "name_or_path",
    "datasets import: output": "folder",
    "claims show: name": "identifier",
    "claims try: name": "claim",
    "evaluate: judge": "judges",
    "evaluate: audit": "audits",
    "compare: audit": "audits",
    "judge check: judge": "spec",
    "inspect: prepared": "preparation",
    "prepare: prepared": "name",
    "retrieval: measure": "measures",
    "k": "cutoffs",
    "like": "source",
    "resume": "run_id",
    "repeat": "repeats",
    "detect": "points",
    "progress": "style",
    "column": "columns",
    "key": "key_file",
    "check": "check_built_in",
    "against": "name",
    "save_baseline": "path",
    "max_cost": "spending",
    "sweep: max_cost": "max_cost",
    "claims try: max_cost": "max_cost",
    "timeout": "timeout_s",
    "give_up_after": "give_up_after_s",
    "batch_poll": "poll_s",
    "question_id": "question_ids",
    "embed_text": "embedded_text",
    "reading": "method",
}
"""The name under which a parameter arrives, where it is not its own, and with what value, where that is made of it."""

WITH: dict[tuple[str, str], Words] = {
    **{(verb, "address"): {"executor": "dask"} for verb in ("prepare", "retrieval")},
    **{(verb, "batch_poll"): {"batch": ""} for verb in ("run", "evaluate", "judge bridge")},
    ("prepare", "measure"): {"dry_run": ""},
    ("run", "detect"): {"dry_run": ""},
    **{("run", one): {"reading": "files"} for one in ("steps", "prompt_budget")},
    ("run", "like"): {"dataset": None, "memory": None, "model": None},
    ("run", "strict"): {"like": "r0", "dataset": None, "memory": None, "model": None},
    ("evaluate", "hypotheses"): {"run_ids": None},
    **{("inspect", one): {"memory": "bm25"} for one in ("set", "budget", "reranker")},
    ("inspect", "api_base"): {"query_model": "offline/given"},
    ("view", "export"): {"run_ids": "r0"},
    ("import", "cutoff"): {"format": "mem0-benchmarks"},
}
"""What else must be given, or left out, for an option of a verb to be taken."""

CHOOSES: dict[tuple[str, str], str] = {
    ("run", "dry_run"): "longmemeval.cli.verbs.run:show_run",
    ("evaluate", "dry_run"): "longmemeval.pipeline.evaluate.estimate:estimate_grading",
    ("claims try", "dry_run"): "longmemeval.api.claims:ClaimTrial.estimate",
    ("judge check", "dry_run"): "longmemeval.cli.verbs.judge:show_stages",
    ("judge bridge", "dry_run"): "longmemeval.pipeline.evaluate.bridging:check_judges",
    ("compare", "across"): "longmemeval.report.tables.abilities:ability_table",
    ("compare", "format"): "longmemeval.report.text:write_summary",
    ("compare", "published"): "longmemeval.report.text:published_for",
    ("facts", "profile"): "longmemeval.pipeline.inspect.facts:HistoryFacts.about",
    ("import", "format"): "longmemeval.cli.verbs.import_run:import_harness",
}
"""Options that choose what is done: the door that is reached with them alone."""

SHOWN = {
    "help_all": "the help itself: tests/cli/test_help.py",
    "json": "the form of what is printed: tests/benchmarks/test_cli_datasets.py",
    "as_json": "the form of what is printed: the tests of each verb",
    "compare: latex": "says what does it: tests/cli/test_remedies.py",
    "run: recipe": "says what took its place: tests/pipeline/run/test_like.py",
    "status: watch": "how often it is looked: tests/pipeline/status/test_status.py",
    "inspect: run": "which part is printed: tests/llm/test_command.py",
    "inspect: session": "which part is printed: tests/cli/test_inspect.py",
    "inspect: everything": "which part is printed: tests/cli/test_inspect.py",
    "inspect: vectors": "which part is printed: tests/cli/test_inspect.py",
    "facts: draw": "the form of what is printed: tests/cli/test_facts.py",
    "facts: output": "where the drawing is written: tests/cli/test_facts.py",
    "claims list: every": "which rows are printed: tests/pipeline/claims",
    "claims table: as_markdown": "the form of what is printed: tests/pipeline/claims/test_field.py",
}
"""What decides only about what is printed when the work is done, and what shows that."""


def commands(group: TyperGroup, before: str = "") -> Iterator[tuple[str, TyperCommand]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, f"{before}{name} ")
        elif isinstance(command, TyperCommand):
            yield before + name, command


COMMANDS = dict(commands(typer.main.get_group(app)))


def leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """The plain values in arguments, with the names on the way to each."""
    if isinstance(value, Struct):
        inner: Mapping[Any, object] = asdict(value)
    elif isinstance(value, BaseModel):
        inner = dict(value)
    elif is_dataclass(value) and not isinstance(value, type):
        inner = {one.name: getattr(value, one.name, None) for one in fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        inner = value._asdict()
    elif isinstance(value, Mapping):
        inner = value
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from leaves(one, path)
        return
    else:
        yield path, value
        return
    for name, one in inner.items():
        yield from leaves(one, (*path, str(name)))


class Seen(NamedTuple):
    doors: frozenset[str]
    values: list[tuple[tuple[str, ...], object]]

    def under(self, name: str) -> list[object]:
        return [value for path, value in self.values if name in path]


def seen(command: TyperCommand, words: list[str], doors: Doors, *, may_refuse: bool = False) -> Seen:
    """What the doors were given when the verb was called with these words.

    Args:
        may_refuse: whether the words may be refused, as where an option takes the place of a required one.
    """
    reached, values = set[str](), list[tuple[tuple[str, ...], object]]()

    def door(name: str, then: Callable[..., object]) -> Callable[..., object]:
        signature = inspect.signature(resolve_name(name))

        def recorder(*given: object, **named: object) -> object:
            reached.add(name)
            values.extend(leaves(signature.bind(*given, **named).arguments))
            return then(*given, **named)

        return recorder

    with pytest.MonkeyPatch.context() as patch:
        replaced = {name: door(name, then) for name, then in doors.items()}
        for name, recorder in replaced.items():
            owner, _, attribute = name.replace(":", ".").rpartition(".")
            patch.setattr(resolve_name(owner), attribute, recorder)
        try:
            command.main(words, prog_name="longmemeval", standalone_mode=False)
        except Arrived:
            pass
        except Exception:
            if not may_refuse:
                raise
    return Seen(frozenset(reached), values)


def typed(verb: str, parameter: "Parameter") -> tuple[str, object]:
    """What is typed for a parameter, and the value that this is."""
    annotation = vars(parameter)["type_descriptor"].annotation
    kinds = {annotation, *typing.get_args(annotation)}
    choices = [one for kind in kinds for one in typing.get_args(kind) if isinstance(one, str)]
    choices += [one for one in typing.get_args(annotation) if isinstance(one, str)]
    text = VALUES.get(f"{verb}: {parameter.name}", VALUES.get(parameter.name, ""))
    if text:
        return text, datetime.fromisoformat(text) if datetime in kinds else float(text) if float in kinds else text
    if choices:
        text = next(one for one in reversed(choices) if one != parameter.default)
        return text, text
    if bool in kinds:
        return "", True
    if kinds & {int, float}:
        return "7", 7
    return f"given-{parameter.name}", f"given-{parameter.name}"


def words_for(command: TyperCommand, values: Words) -> list[str]:
    words, arguments = list[str](), list[str]()
    for parameter in command.params:
        text = values.get(parameter.name)
        if text is None:
            continue
        if not parameter.opts[0].startswith("-"):
            arguments.append(text)
        else:
            words += [parameter.opts[0], text] if text else [parameter.opts[0]]
    return arguments + words


def equal(found: object, value: object) -> bool:
    return found == value or (
        isinstance(found, Path) and isinstance(value, str) and found.absolute() == Path(value).absolute()
    )


def unread(name: str, command: TyperCommand, verb: Verb) -> list[str]:
    """The parameters of a verb that arrive nowhere."""
    missing = []
    doors = {**ON_THE_WAY, **verb.doors}
    for parameter in command.params:
        key = parameter.name
        if key in SHOWN or f"{name}: {key}" in SHOWN:
            continue
        text, value = typed(name, parameter)
        others = {**verb.given, **WITH.get((name, key), {})}
        without = {one: other for one, other in others.items() if one != key}
        got = seen(command, words_for(command, {**others, key: text}), doors)
        if (name, key) in CHOOSES:
            usual = seen(command, words_for(command, without), doors, may_refuse=True)
            if CHOOSES[name, key] not in got.doors - usual.doors:
                missing.append(f"{key} chooses no {CHOOSES[name, key]}: {sorted(got.doors)}")
            continue
        alias = ARRIVES_AS.get(f"{name}: {key}", ARRIVES_AS.get(key, key))
        arrives, expected = alias if isinstance(alias, tuple) else (alias, value)
        if not any(equal(found, expected) for found in got.under(arrives)):
            missing.append(f"{key}: no {expected!r} under {arrives}: {got.under(arrives)}, {sorted(got.doors)}")
            continue
        if not parameter.required and key not in verb.given:
            usual = seen(command, words_for(command, without), doors, may_refuse=True)
            if any(equal(found, expected) for found in usual.under(arrives)):
                missing.append(f"{key}: {expected!r} is under {arrives} without it too")
    return missing


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "template.txt").write_text("{history} {question_date} {question}")
    (tmp_path / "limits.yaml").write_text("models: {openai/given: {rpm: 1234}}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_arrives(name: str) -> None:
    assert unread(name, COMMANDS[name], VERBS[name]) == []


def test_the_tables_name_no_verb_and_no_option_that_is_gone() -> None:
    there = {f"{name}: {parameter.name}" for name, command in COMMANDS.items() for parameter in command.params}
    keys = {one.partition(": ")[2] for one in there}
    pairs = {f"{verb}: {key}" for verb, key in (*WITH, *CHOOSES)}
    named = {*VALUES, *ARRIVES_AS, *SHOWN}
    assert VERBS.keys() == COMMANDS.keys()
    assert {one for one in named if ": " in one} | pairs <= there
    assert {one for one in named if ": " not in one} <= keys


def work(depth: int, *, wide: bool) -> None:
    """What the verbs of the next test would do."""


def test_an_option_that_is_read_by_nobody_is_found() -> None:
    """And one that has no door, one that is passed on as another, and a fixed value in the place of the option's."""

    def verb(
        *,
        depth: Annotated[int, Flag(help="Passed on.")] = 1,
        wide: Annotated[bool, Flag(help="Passed on.")] = False,
        forgotten: Annotated[int | None, Flag(help="Read by nobody.")] = None,
        exchanged: Annotated[int | None, Flag(help="Passed on under another name.")] = None,
    ) -> None:
        """Do it."""
        sys.modules[__name__].__dict__["work"](exchanged or depth, wide=wide)

    def fixed(*, depth: Annotated[int, Flag(help="Read by nobody.")] = 1) -> None:
        """Do it."""
        sys.modules[__name__].__dict__["work"](7, wide=False)

    group = typer.Typer()
    add_verb(group, "verb", verb, example="verb")
    add_verb(group, "fixed", fixed, example="fixed")
    made = dict(commands(typer.main.get_group(group)))
    doors = works_in(f"{__name__}:work")
    assert [line.partition(":")[0] for line in unread("verb", made["verb"], doors)] == ["forgotten", "exchanged"]
    assert unread("fixed", made["fixed"], doors) == ["depth: 7 is under depth without it too"]
