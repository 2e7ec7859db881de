"""The page docs/cli.md: every verb of the application with its options, what several verbs share once."""

from collections import Counter
from collections.abc import Iterator

import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup

from longmemeval.cli.main import app
from longmemeval.cli.panels import Parameter, explanation_of, usage_of, visible_parameters
from longmemeval.cli.verb_table import GROUPS, HEADINGS

ALWAYS = "--help", "--help-all"
HEAD = """# Command line

Every verb with all its options. `longmemeval VERB --help` shows the common ones, `--help-all` every one.
Options that several verbs have in the same words are explained once, under [Shared options](#shared-options).

    longmemeval [--debug] VERB [OPTIONS]

`--debug` shows the traceback of an error, `--version` prints the version, `--install-completion` and
`--show-completion` complete verbs, runs, data sets and judges in your shell.
[Files](files.md) says where results go, [JSON](json.md) what `--json` prints and what exit codes mean,
[Parameters](parameters.md) what `--set` takes.

<!-- Written by `scripts/make_docs` from the application. -->
"""
SHARED = """## Shared options

What a verb below lists after "Also:" is explained here.
"""
Verb = tuple[tuple[str, ...], TyperCommand | TyperGroup]


def cli_page() -> str:
    """Return the text of docs/cli.md."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    assert set(HEADINGS) == set(GROUPS)
    by_folder = {folder: list(verbs_of(root, GROUPS[folder])) for folder in GROUPS}
    lines = Counter(
        (long_name(one), line(one)) for verbs in by_folder.values() for _, verb in verbs for one in options_of(verb)
    )
    # One meaning for each name: that which most verbs have.
    shared_by_name: dict[str, str] = {}
    for (name, text), times in lines.most_common():
        if times > 1:
            shared_by_name.setdefault(name, text)
    shared = set(shared_by_name.values())
    parts = [HEAD, SHARED, "\n".join(sorted(shared, key=by_long_name)) + "\n"]
    for folder, heading in HEADINGS.items():
        parts.append(f"## {heading}\n")
        parts.extend(section(path, verb, shared) for path, verb in by_folder[folder])
    return "\n".join(parts)


def verbs_of(group: TyperGroup, names: tuple[str, ...]) -> Iterator[Verb]:
    """Yield the verbs of these names, each group before its own verbs."""
    for name in names:
        verb = group.commands[name]
        assert isinstance(verb, TyperCommand | TyperGroup)
        yield (name,), verb
        if isinstance(verb, TyperGroup):
            for path, inner in verbs_of(verb, tuple(verb.commands)):
                yield (name, *path), inner


def options_of(verb: TyperCommand | TyperGroup) -> list[Parameter]:
    """Return the parameters of a verb, its arguments first, then what must be given."""
    found = [one for one in visible_parameters(verb) if one.opts[0] not in ALWAYS]
    return sorted(found, key=lambda one: (not isinstance(one, TyperArgument), not one.required))


def line(parameter: Parameter) -> str:
    """Return a parameter as an item of a list."""
    explanation = explanation_of(parameter).plain.replace("\u00a0", " ").replace("*", "\\*")
    return f"- `{usage_of(parameter).plain}`: {explanation}"


def section(path: tuple[str, ...], verb: TyperCommand | TyperGroup, shared: set[str]) -> str:
    """Return what the page says of one verb."""
    summary = "\n\n".join(" ".join(each.split()) for each in (verb.help or "").strip().split("\n\n"))
    parts = [f"### `{' '.join(path)}`", summary]
    options = [(one, line(one)) for one in options_of(verb)]
    own = [text for _, text in options if text not in shared]
    others = [f"`{long_name(one)}`" for one, text in options if text in shared]
    if verb.epilog:
        parts.append(f"    {verb.epilog}")
    if own:
        parts.append("\n".join(own))
    if others:
        parts.append(f"Also: {', '.join(others)}.")
    return "\n\n".join(parts) + "\n"


def long_name(parameter: Parameter) -> str:
    """Return the long name of an option, or an argument as it is written."""
    if isinstance(parameter, TyperArgument):
        return usage_of(parameter).plain
    return next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])


def by_long_name(text: str) -> tuple[bool, str, str]:
    """Sort arguments before options, and these by their long names."""
    usage = text.split("`")[1]
    return "--" in usage, usage.partition("--")[2], text
