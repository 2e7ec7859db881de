"""Option groups: dataclasses whose fields are options, spread over a verb's signature and put together again."""

import inspect
import typing
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from longmemeval.cli.options.panels import ADVANCED, Verb, show_all
from longmemeval.cli.output import reserve_output
from longmemeval.core.part_options import PartOptions, extra, flag_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def add_verb(app: typer.Typer, name: str, verb: Callable[..., None], *, example: str, all_options: bool = True) -> None:
    """Add a verb whose option groups are spread out.

    Args:
        app: what it is added to.
        name: the verb.
        verb: takes arguments, options and option groups.
        example: one command line, shown under the help.
        all_options: whether the verb has advanced options, which only `--help-all` explains.
    """
    app.command(name, cls=Verb, epilog=example)(spread(verb, all_options=all_options))


def spread(verb: Callable[..., None], *, all_options: bool = False) -> Callable[..., None]:
    """Return the verb with every parameter that is an option group replaced by the fields of the group.

    Args:
        verb: takes arguments, options and instances of dataclasses.
        all_options: whether `--help-all` is added.
    """
    own: dict[str, inspect.Parameter] = {}
    groups: dict[str, tuple[Callable[..., object], list[str]]] = {}
    for parameter in inspect.signature(verb, eval_str=True).parameters.values():
        group = parameter.annotation
        if isinstance(group, type) and (is_dataclass(group) or issubclass(group, PartOptions)):
            options = _options(group) if is_dataclass(group) else _options_of_parts(group)
            groups[parameter.name] = group, list(options)
            own |= options
        else:
            own[parameter.name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
    taken = [*own.values(), *([_HELP_ALL] if all_options else [])]

    @wraps(verb)
    def flat(**given: object) -> None:
        given.pop(_HELP_ALL.name, None)
        whole = {name: group(**{one: given.pop(one) for one in names}) for name, (group, names) in groups.items()}
        reserve_output()
        verb(**given, **whole)

    flat.__dict__["__signature__"] = inspect.Signature(taken)
    flat.__annotations__ = {one.name: one.annotation for one in taken}
    del flat.__dict__["__wrapped__"]
    return flat


def _options(group: "type[DataclassInstance]") -> dict[str, inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    }


_ANNOTATED: Any = typing.__dict__["Annotated"]
"""For types that are known only when the module runs."""


def _options_of_parts(group: type[PartOptions]) -> dict[str, inspect.Parameter]:
    found = {}
    for name, field in group.model_fields.items():
        told = extra(field)
        option = typer.Option(
            flag_of(name, field),
            metavar=told.get("metavar"),
            rich_help_panel=told.get("panel", ADVANCED),
            help=" ".join((field.description or "").split()),
        )
        annotation = _ANNOTATED[field.annotation, option]
        found[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation
        )
    return found


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
