"""`--published` of `compare` and `report`: without a value it means the same judge and metric."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import typer
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from longmemeval.core.options import ADVANCED, LIMITS, MODEL, OUTPUT, WHAT, Flag

if TYPE_CHECKING:
    from typer._click import Context


# Help on one screen: options in panels, the rarer ones by name; `--help-all` explains every option.

_ORDER = (WHAT, MODEL, LIMITS, OUTPUT, ADVANCED)
_EXPLAINED = "every-option"
_RARE = ("install_completion", "show_completion")
"""Options that the help leaves out, so that it is one screen: docs/cli.md names them."""


class _Context(Protocol):
    """The used part of a context."""

    @property
    def command_path(self) -> str: ...

    @property
    def meta(self) -> dict[str, Any]: ...


class _Formatter(Protocol):
    """A writer of help."""

    def write(self, string: str, /) -> None: ...


Parameter = TyperArgument | TyperOption


class Verb(TyperCommand):
    """A verb whose help fits on one screen."""

    def format_help(self, ctx: _Context, formatter: _Formatter) -> None:
        """Print usage, summary, panels and the example."""
        every = bool(ctx.meta.get(_EXPLAINED))
        console = _console()
        shown = visible_parameters(self)
        arguments = [_argument(argument) for argument in shown if isinstance(argument, TyperArgument)]
        required = [_option(option) for option in shown if isinstance(option, TyperOption) and option.required]
        _print_head(console, self, ctx, " ".join([*arguments, *required]))
        panels: dict[str, list[Parameter]] = {}
        # Arguments first, then required options.
        for parameter in sorted(shown, key=lambda item: (isinstance(item, TyperOption), not item.required)):
            panels.setdefault(parameter.rich_help_panel or WHAT, []).append(parameter)
        for title in sorted(panels, key=_ORDER.index):
            if title == ADVANCED and not every:
                console.print(_names_panel(ctx, panels[title]))
            else:
                rows = [(usage_of(entry), explanation_of(entry)) for entry in panels[title]]
                console.print(_panel(title, [*rows, _OWN_HELP] if title == OUTPUT else rows))
        _print_foot(console, self)
        formatter.write(console.end_capture())


class Verbs(TyperGroup):
    """A group of verbs, each in one line."""

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Print the help if no verb is given."""
        if not args and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit
        return super().parse_args(ctx, args)

    def summaries(self) -> dict[str, dict[str, str]]:
        """Return the line of each verb in the help, by its heading; an empty heading means none."""
        return {"": {name: _summary(verb.help) for name, verb in self.commands.items()}}

    def format_help(self, ctx: _Context, formatter: _Formatter) -> None:
        """Print usage, verbs and options."""
        console = _console()
        _print_head(console, self, ctx, "COMMAND")
        groups, parts = self.summaries(), list[RenderableType]()
        width = max(len(name) for verbs in groups.values() for name in verbs)
        for heading, verbs in groups.items():
            rows = [(Text(name, style=_BOLD), Text(summary)) for name, summary in verbs.items()]
            parts += [*([Text(heading, style="bold")] if heading else []), _grid(rows, 2 if heading else 0, width)]
        console.print(_boxed("Commands", Group(*parts)))
        options = [parameter for parameter in visible_parameters(self) if parameter.name not in _RARE]
        console.print(
            _panel("Options", [*((usage_of(option), explanation_of(option)) for option in options), _OWN_HELP])
        )
        _print_foot(console, self)
        formatter.write(console.end_capture())


def show_all(ctx: typer.Context, requested: bool) -> None:
    """Print the help with every option explained, and end."""
    if requested:
        ctx.meta[_EXPLAINED] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


_BOLD = "bold cyan"
_OWN_HELP = Text("-h, --help", style=_BOLD), Text("Show this message and exit.")


def _console() -> Console:
    console = Console(highlight=False, emoji=False)
    console.begin_capture()
    return console


def visible_parameters(verb: TyperCommand | TyperGroup) -> list[Parameter]:
    """Return the arguments and options that the help of a verb shows."""
    return [parameter for parameter in verb.params if isinstance(parameter, Parameter) and not parameter.hidden]


def _print_head(console: Console, verb: TyperCommand | TyperGroup, ctx: _Context, takes: str) -> None:
    usage = " ".join([ctx.command_path, *([takes] if takes else []), "[OPTIONS]"])
    console.print(Text.assemble(("Usage: ", "bold"), usage))
    paragraphs = (verb.help or "").strip().split("\n\n")
    console.print("\n".join(" ".join(paragraph.split()) for paragraph in paragraphs), markup=False)


def _print_foot(console: Console, verb: TyperCommand | TyperGroup) -> None:
    if verb.epilog:
        console.print(Text.assemble(("Example: ", "bold"), verb.epilog))


def _summary(text: str | None) -> str:
    return " ".join((text or "").strip().split("\n\n")[0].split())


def _panel(title: str, rows: Sequence[tuple[Text, Text]]) -> Panel:
    return _boxed(title, _grid(rows))


def _boxed(title: str, what: RenderableType) -> Panel:
    return Panel(what, title=title, title_align="left", border_style="dim")


def _grid(rows: Sequence[tuple[Text, Text]], indent: int = 0, width: int | None = None) -> Padding:
    grid = Grid.grid(padding=(0, 2, 0, 0), expand=True)
    grid.add_column(no_wrap=True, min_width=width)
    grid.add_column(ratio=1)
    for row in rows:
        grid.add_row(*row)
    return Padding(grid, (0, 0, 0, indent))


def _names_panel(ctx: _Context, options: Iterable[Parameter]) -> Panel:
    """Return the names of options, none broken over two lines."""
    names = [_long(option) for option in options if _long(option) != "--help-all"]
    title = f"{ADVANCED} options (details: {ctx.command_path} --help-all)"
    return _boxed(title, Text(" ".join(names), style="cyan"))


def _argument(argument: TyperArgument) -> str:
    name = (argument.metavar or argument.name or "") + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _option(option: TyperOption) -> str:
    return _long(option) if option.is_flag else f"{_long(option)} {option.metavar or 'VALUE'}"


def _long(parameter: Parameter) -> str:
    """Return the first of an option's long names."""
    return next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])


def usage_of(parameter: Parameter) -> Text:
    """Return the usage of a parameter: its short and long name, and its value."""
    if isinstance(parameter, TyperArgument):
        return Text(_argument(parameter), style=_BOLD)
    short = next((f"{name}, " for name in parameter.opts if not name.startswith("--")), "")
    return Text(short + _option(parameter), style=_BOLD)


def explanation_of(parameter: Parameter) -> Text:
    """Return the help of a parameter, with its default."""
    text = Text((parameter.help or "").replace("`", ""))
    if isinstance(parameter, TyperOption) and parameter.required:
        text.append(" [required]", style="red")
    default = parameter.default
    known = isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""
    if parameter.show_default and known:
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        # A default stays on one line.
        text.append(f" [default:\u00a0{shown}]", style="dim")
    return text


_SAME, _ALL = "same", "all"

Published = Annotated[
    Literal["same", "all"] | None,
    Flag(OUTPUT, "[all]", "Show published scores (same judge and metric, or all).", name="--published"),
]


def with_default(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the arguments, with the default value of `--published` if none follows it."""
    waiting = False
    for argument in arguments:
        if waiting and argument not in (_SAME, _ALL):
            yield _SAME
        waiting = argument == "--published"
        yield argument
    if waiting:
        yield _SAME
