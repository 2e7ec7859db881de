"""Options declared once: what the command line, sweep files and Python make of one field."""

import ast
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
import typer.main
from msgspec import Struct

from longmemeval.cli.options import add_verb
from longmemeval.core.options import LIMITS, Flag, Group, groups_of, options_of, words_of
from longmemeval.core.part_options import PartOptions
from longmemeval.errors import HarnessError
from longmemeval.llm.options import ModelOptions, SpendingLimit
from longmemeval.pipeline.options import (
    AnsweringOptions,
    CheckOptions,
    EvaluateOptions,
    PrepareOptions,
    RetrievalOptions,
)
from longmemeval.reading.options import ReadingOptions
from longmemeval.report.options import ReportOptions
from longmemeval.results.selection import Selection
from tests.support import ROOT, clean_environment

CLASSES = [AnsweringOptions, CheckOptions, EvaluateOptions, ModelOptions, PartOptions, PrepareOptions, ReadingOptions]
CLASSES += [ReportOptions, RetrievalOptions, Selection]


class Inner(Struct, frozen=True):
    most: Annotated[int, Flag(LIMITS, "N", "The most.", minimum=2)] = 5
    unseen: int = 1


@dataclass(frozen=True, kw_only=True)
class Outer:
    names: Annotated[tuple[str, ...], Flag(metavar="NAME", name="--name -n", help="A name.")] = ()
    kept: Annotated[bool, Flag(name="--no-keep", help="Do not keep it.")] = True
    limit: Annotated[SpendingLimit | None, Flag(help="Dollars.", read=float, made=SpendingLimit)] = None
    form: Annotated[Literal["a", "b"], Flag(help="The form.")] = "a"
    inner: Annotated[Inner, Group(("most",))]


def parsed(*words: str) -> Outer:
    """What the settings become where these words are typed."""
    got: list[Outer] = []

    def verb(settings: Outer) -> None:
        """Do it."""
        got.append(settings)

    app = typer.Typer()
    add_verb(app, "verb", verb, example="verb")
    typer.main.get_command(app)(list(words), standalone_mode=False)
    return got[0]


def test_words_become_settings() -> None:
    assert parsed() == Outer(inner=Inner())
    words = ["--name", "x", "-n", "y", "--no-keep", "--limit", "2.5", "--form", "b", "--most", "7"]
    given = Outer(names=("x", "y"), kept=False, limit=SpendingLimit(2.5), form="b", inner=Inner(most=7))
    assert parsed(*words) == given
    assert parsed(*words_of(given)[:5]) == Outer(names=("x", "y"), kept=False, inner=Inner())


def test_values_below_the_least_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception, match="2"):
        parsed("--most", "1")


def test_settings_become_words_without_defaults() -> None:
    assert words_of(Selection()) == []
    chosen = Selection(seed=3, question_ids=("a", "b"), shard="1/2")
    assert words_of(chosen) == ["--seed", "3", "--question-id", "a", "--question-id", "b", "--shard", "1/2"]
    assert words_of(PartOptions(embedded_text="dated", index="exact"), ["index"]) == ["--index", "exact"]


def test_groups_are_found_with_what_is_chosen_of_them() -> None:
    assert list(groups_of(RetrievalOptions)) == [
        ("model_options", ModelOptions, ("api_base", "give_up_after_s", "embed_batch"))
    ]


@pytest.mark.parametrize("group", CLASSES)
def test_every_option_says_what_it_does(group: type) -> None:
    options = options_of(group)
    assert options
    for option in options:
        assert option.help[0].isalnum() or option.help[0] == "-", option.field
        assert "\n" not in option.help
        assert option.help.endswith((".", "]")) or len(option.help.split()) < 8, option.field


# The number of attempts is one line of one file: every verb, sweep file and Python follow it.
FOLLOWS = """
import longmemeval.core.defaults as defaults
defaults.MAX_ATTEMPTS, defaults.CONCURRENCY = 9, 3
import typer.main
from longmemeval.cli.main import app
from longmemeval.llm.options import ModelOptions
from longmemeval.pipeline.sweep.file import ModelEntry, SweepFile
from longmemeval.pipeline.run.plan import RunOptions
verbs = typer.main.get_group(app).commands
found = {}
for name, verb in [*verbs.items(), ("judge check", verbs["judge"].commands["check"])]:
    for one in getattr(verb, "params", ()):
        if one.name in ("max_attempts", "concurrency"):
            found[name, one.name] = one.default
found["Python", "max_attempts"] = ModelOptions().max_attempts
found["Python", "concurrency"] = RunOptions().concurrency
found["sweep", "max_attempts"] = ModelEntry.model_fields["max_attempts"].default
found["sweep", "concurrency"] = SweepFile.model_fields["concurrency"].default
print(found)
"""


def test_the_defaults_of_calls_are_one_line_of_one_file() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FOLLOWS],
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment(),
        timeout=200,
    )
    places = ("run", "evaluate", "judge check", "Python", "sweep")
    expected = {(place, name): value for place in places for name, value in (("max_attempts", 9), ("concurrency", 3))}
    assert ast.literal_eval(done.stdout) == expected


# What a stranger changes, and the files that are opened for it: `docs/contributing-map.md` is true of the tree.
def rows() -> list[tuple[str, str]]:
    """What is changed, and the cell that says where."""
    text = (ROOT / "docs" / "contributing-map.md").read_text()
    lines = [line.strip("|").split("|", 1) for line in text.splitlines() if line.startswith("| ")]
    return [(what.strip(), folders.strip()) for what, folders in lines if "---" not in what]


def test_the_map_names_files_that_are_there() -> None:
    named = [word for _, cell in rows() for word in cell.split("`")[1::2] if "/" in word and "VERB" not in word]
    named = [word for word in named if "NAME" not in word and "*" not in word]
    assert len(named) > 25
    missing = [
        word for word in named if not any((place / word).exists() for place in (ROOT / "longmemeval", ROOT, Path("/")))
    ]
    assert missing == []


def test_the_connection_of_prepare_is_one_record_with_its_old_keywords() -> None:
    there = ModelOptions(api_base="http://there/v1", give_up_after_s=3.0)
    options = PrepareOptions(api_base="http://there/v1", give_up_after_s=3.0)
    assert options == PrepareOptions(model_options=there)
    assert options.model_options == there
    moved = options.replaced(api_base="http://elsewhere/v1", jobs=1).model_options
    assert (moved.api_base, moved.give_up_after_s) == ("http://elsewhere/v1", 3.0)
    assert not set(ModelOptions.__struct_fields__) & set(PrepareOptions.model_fields)
    for wrong in ({"api_base": 3}, {"give_up_after_s": "soon"}, {"model_options": 3}, {"api_bse": "http://there"}):
        with pytest.raises(HarnessError):
            PrepareOptions.model_validate(wrong)
