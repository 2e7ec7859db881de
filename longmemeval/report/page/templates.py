"""Render pages: templates that escape everything, and a content policy under which a page loads nothing."""

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from longmemeval import __version__
from longmemeval.core.tables.table import html
from longmemeval.core.text.figures import bounds, in_dollars, in_percent, percent, visible
from longmemeval.report.charts.svg import need_report_libraries

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(package: str = "longmemeval.report", folder: str = "page") -> "Environment":
    """Return a template environment that escapes everything and makes invisible characters visible.

    Args:
        package: the package that contains the templates; those that all pages share are found as well.
        folder: the folder of the templates in that package.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def show(value: object) -> object:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    templates = Environment(
        loader=ChoiceLoader([PackageLoader(package, folder), PackageLoader("longmemeval.report", "page")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=show,
    )
    templates.filters["drawing"] = lambda chart: Markup(chart.svg)
    templates.filters |= {function.__name__: function for function in (bounds, in_dollars, in_percent, percent)}
    templates.globals["data_table"] = lambda table, label="": Markup(html(table, label))
    return templates


def written_page(
    template: str, *, script: str = "", style: str = "", number: int = 0, kind: str = "", **values: Any
) -> str:
    """Return a self-contained page: the same bytes for the same values.

    Args:
        template: name of the template, which extends `frame.html.j2`.
        script: script of the page.
        style: CSS to add to the style sheet of all pages.
        number: number of the runs that the page is about.
        kind: kind of the page; empty: a report.
        values: variables of the template.

    Raises:
        HarnessError: the extra `report` is not installed.
    """
    need_report_libraries()
    from markupsafe import Markup

    style = f"{page_file('palette.css')}\n{page_file('page.css')}{style}"
    frame = {"policy": _policy(script, style), "style": Markup(style), "script": Markup(script), "version": __version__}
    return environment().get_template(template).render(frame, number=number, kind=kind, **values) + "\n"


def page_file(name: str) -> str:
    """Return the text of a file beside the templates."""
    return resources.files("longmemeval.report").joinpath("page", name).read_text(encoding="utf-8").strip()


def _policy(script: str, style: str) -> str:
    """Return a content policy under which nothing is loaded and only the page's own script runs."""
    return (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
