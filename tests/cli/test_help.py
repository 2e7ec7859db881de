"""`--help`: one screen for each verb, in panels, nothing cut; `--help-all` explains every option."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup

from longmemeval.cli import verbs
from longmemeval.cli.main import app
from longmemeval.cli.verb_table import GROUPS, SUMMARIES
from tests.cli.conftest import Command
from tests.cli.terminal import WIDTHS, check_snapshot, shown

GROUP = typer.main.get_group(app)
VERBS = [name for name in GROUP.commands if name not in ("datasets", "judge", "memory", "plugins", "board", "claims")]
LINES = ["", *VERBS, "plugins", "datasets", *(f"datasets {name}" for name in ("list", "download", "verify", "stats"))]
LINES += ["judge", "judge bridge", "judge check", "memory", "memory init", "memory install", "memory check"]
LINES += ["board", "board build", "claims", "claims list", "claims show", "claims table", "claims try"]
BOX = "╭│╰"


def command_of(verb: str) -> TyperCommand:
    group: object = GROUP
    for name in verb.split():
        assert isinstance(group, TyperGroup)
        group = group.commands[name]
    assert isinstance(group, TyperCommand)
    return group


def options_of(verb: str) -> set[str]:
    """The long names of a verb's options, the first of each."""
    command = GROUP.commands[verb]
    found = {
        next(name for name in one.opts if name.startswith("--"))
        for one in command.params
        if one.opts[0][0] == "-" and not getattr(one, "hidden", False)
    }
    return found | {"--help"}


@pytest.mark.slow
@pytest.mark.parametrize("verb", LINES)
def test_snapshot_of_help(
    verb: str, command: Command, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """At 80 columns; the same words stand in unbroken boxes on a wide terminal."""
    narrow, wide = (shown(command, monkeypatch, f"{verb} --help", width) for width in WIDTHS)
    for text, width in ((narrow, WIDTHS[0]), (wide, WIDTHS[1])):
        lines = text.splitlines()
        assert max(map(len, lines)) <= width
        assert len(lines) <= 40
        assert "…" not in text
        assert {len(line) for line in lines if line[0] in BOX} <= {width}
    # Only where lines are broken differs.
    words, others = (set(re.sub(f"[{BOX}─]", " ", text).split()) for text in (narrow, wide))
    assert words == others
    name = f"help/{'-'.join(verb.split()) or 'longmemeval'}-{WIDTHS[0]}"
    check_snapshot(name, narrow, write=request.config.getoption("--write-snapshots"))


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_every_option_is_named(verb: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for asked in ("--help", "--help-all"):
        text = shown(command, monkeypatch, f"{verb} {asked}", 80)
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) >= options_of(verb) - {"--help-all"}


@pytest.mark.parametrize("verb", VERBS)
def test_help_all_explains_what_help_only_names(verb: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    short, whole = (shown(command, monkeypatch, f"{verb} {asked}", 80) for asked in ("--help", "--help-all"))
    assert f"details: longmemeval {verb} --help-all" in short
    assert "LONGMEMEVAL_PREPARED_DIR" not in short
    assert max(map(len, whole.splitlines())) <= 80
    for one in GROUP.commands[verb].params:
        if getattr(one, "hidden", False):
            continue  # It only says what its successor is called.
        told = getattr(one, "help", None)
        assert told
        # Panels wrap texts at words.
        assert told.replace("`", "").split()[0] in whole


@pytest.mark.parametrize("verb", [*VERBS, "datasets list", "judge check", "memory check"])
def test_the_example_is_a_command_line_the_verb_takes(verb: str, command: Command) -> None:
    text = command(f"{verb} --help").stdout
    example = text[text.rindex("Example: ") :].removeprefix("Example: longmemeval ")
    words = shlex.split(example)
    assert words[: len(verb.split())] == verb.split()
    # Refuses what the verb does not take, and asks for what is missing.
    command_of(verb).make_context(verb, words[len(verb.split()) :])


@pytest.mark.parametrize("group", ["", "datasets", "judge", "memory", "board", "claims"])
def test_a_group_alone_prints_its_help(group: str, command: Command) -> None:
    alone, asked = command(group), command(f"{group} --help")
    assert alone.code == 0
    assert alone.stdout == asked.stdout != ""


@pytest.mark.parametrize("verb", SUMMARIES)
def test_the_list_of_verbs_says_what_each_says_of_itself(verb: str) -> None:
    first = (GROUP.commands[verb].help or "").strip().split("\n\n")[0]
    assert " ".join(first.split()) == SUMMARIES[verb]


def test_the_help_shows_each_verb_in_one_group(command: Command) -> None:
    grouped = [verb for verbs in GROUPS.values() for verb in verbs]
    assert sorted(grouped) == sorted(SUMMARIES)
    lines = [line.strip("│ ") for line in command("--help").stdout.splitlines()]
    headings = ["Run", "Inspect", "Compare", "Verify", "Share and extend"]
    assert [line for line in lines if line in headings] == headings


def test_the_list_of_verbs_is_whole() -> None:
    others = {"__init__", "import_run"}
    modules = {path.stem for path in Path(verbs.__file__).parent.glob("*.py")} - others
    assert modules | {"import"} == set(SUMMARIES)


@pytest.mark.parametrize("line", LINES)
def test_optional_arguments_stand_in_one_pair_of_brackets(line: str, command: Command) -> None:
    assert "[[" not in command(f"{line} --help").stdout
