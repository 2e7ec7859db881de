"""Options of verbs: parameters and classes of settings become options, and the settings are put together again."""

import inspect
import typing
from collections.abc import Callable, Collection, Iterator
from functools import wraps
from types import GenericAlias
from typing import Annotated, Any, NamedTuple

import typer
from msgspec import NODEFAULT
from typer.models import ParameterInfo

from longmemeval.cli.options.completion import COMPLETIONS
from longmemeval.cli.options.panels import Verb, show_all
from longmemeval.cli.output import reserve_output
from longmemeval.core.options import ADVANCED, Flag, Group, Option, groups_of, is_settings, options_of

_ANNOTATED: Any = typing.__dict__["Annotated"]
"""`Annotated` for types that are known only at run time."""


class _Settings(NamedTuple):
    """A class of settings, some of whose fields are options."""

    group: type
    only: Collection[str] = ()

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Yield a parameter for each option."""
        for option in options_of(self.group, self.only):
            yield _parameter(option)
        for _, settings in self._groups():
            yield from settings.parameters()

    def build(self, arguments: dict[str, object]) -> object:
        """Return the settings, taking their values out of the arguments of the command line."""
        values = {option.field: option.value(arguments.pop(option.key)) for option in options_of(self.group, self.only)}
        return self.group(**values | {field: settings.build(arguments) for field, settings in self._groups()})

    def _groups(self) -> "Iterator[tuple[str, _Settings]]":
        for field, group, only in groups_of(self.group):
            if not self.only or field in self.only:
                yield field, _Settings(group, only)


def add_verb(app: typer.Typer, name: str, verb: Callable[..., None], *, example: str, all_options: bool = True) -> None:
    """Add a verb whose settings are spread out into options.

    Args:
        verb: a function of arguments, options and classes of settings.
        example: one command line, shown under the help.
        all_options: True if `--help-all` explains the advanced options, if there are any.
    """
    app.command(name, cls=Verb, epilog=example)(spread(verb, all_options=all_options))


def spread(verb: Callable[..., None], *, all_options: bool = False) -> Callable[..., None]:
    """Return the verb with every parameter that is a class of settings replaced by the options in it.

    Args:
        verb: a function of arguments, options (see `core.options.Flag`) and instances of classes that have options.
        all_options: True if `--help-all` is added, if there are advanced options.
    """
    parameters: list[inspect.Parameter] = []
    single: dict[str, Option] = {}
    groups: dict[str, _Settings] = {}
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        hint, *marks = typing.get_args(parameter.annotation) or [parameter.annotation]
        mark = next((mark for mark in marks if isinstance(mark, Flag | Group)), None)
        if isinstance(mark, Flag):
            option = Option(parameter.name, hint, parameter.default, mark, mark.help)
            single[parameter.name] = option
            parameters.append(_parameter(option, parameter.name))
        elif isinstance(mark, Group) or is_settings(hint):
            groups[parameter.name] = _Settings(hint, mark.only if mark else ())
            parameters += groups[parameter.name].parameters()
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    marks = [
        mark
        for keyword in parameters
        for mark in typing.get_args(keyword.annotation)
        if isinstance(mark, ParameterInfo)
    ]
    if all_options and any(mark.rich_help_panel == ADVANCED and not mark.hidden for mark in marks):
        parameters.append(_HELP_ALL)

    @wraps(verb)
    def flat(**arguments: object) -> None:
        arguments.pop(_HELP_ALL.name, None)
        whole = {name: settings.build(arguments) for name, settings in groups.items()}
        arguments |= {name: option.value(arguments[name]) for name, option in single.items()}
        reserve_output()
        verb(**arguments, **whole)

    flat.__dict__["__signature__"] = inspect.Signature(parameters)
    flat.__annotations__ = {keyword.name: keyword.annotation for keyword in parameters}
    del flat.__dict__["__wrapped__"]
    return flat


def _parameter(option: Option, name: str = "") -> inspect.Parameter:
    """Return the parameter of an option, with `name` or the name of the option."""
    flag, hint, default = option.flag, option.type, option.default
    if flag.read:
        hint = flag.read | None
    elif option.is_list:
        hint, default = GenericAlias(list, typing.get_args(hint)[:1]) | None, None
    elif option.is_inverted:
        default = False
    completion = COMPLETIONS.get(flag.metavar or "")
    if flag.argument:
        parameter = typer.Argument(metavar=flag.metavar, help=option.help, autocompletion=completion)
    else:
        parameter = typer.Option(
            *option.names,
            metavar=flag.metavar,
            rich_help_panel=flag.panel,
            help=option.help,
            min=flag.minimum,
            max=flag.maximum,
            autocompletion=completion,
            show_default=flag.shown,
            hidden=flag.hidden,
        )
    return inspect.Parameter(
        name or option.key,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if default is NODEFAULT else default,
        annotation=_ANNOTATED[hint, parameter],
    )


_HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all", is_eager=True, callback=show_all, rich_help_panel=ADVANCED, help="Explain every option."
        ),
    ],
)
