"""What all pages are made with: templates that escape everything, and a policy that nothing is loaded."""

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

from longmemeval import __version__
from longmemeval.core.tables.render import html
from longmemeval.core.text.figures import bounds, in_dollars, in_percent, percent
from longmemeval.core.text.visible import visible
from longmemeval.report.charts.svg import need_report_libraries

if TYPE_CHECKING:
    from jinja2 import Environment


def environment(package: str = "longmemeval.report", folder: str = "page") -> "Environment":
    """Return templates that escape everything, and show what is invisible.

    Args:
        package: that has them, beside those that all pages share.
        folder: of it, where they are.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: object) -> object:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    made = Environment(
        loader=ChoiceLoader([PackageLoader(package, folder), PackageLoader("longmemeval.report", "page")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    made.filters["drawing"] = lambda chart: Markup(chart.svg)
    made.filters |= {one.__name__: one for one in (bounds, in_dollars, in_percent, percent)}
    made.globals["data_table"] = lambda table, label="": Markup(html(table, label))
    return made


def written_page(
    template: str, *, script: str = "", style: str = "", number: int = 0, kind: str = "", **values: Any
) -> str:
    """Return a page that needs nothing but itself: the same bytes for the same values.

    Args:
        template: its name; it extends `frame.html.j2`.
        script: of the page.
        style: added to the style sheet of all pages.
        number: of the runs that it is about.
        kind: what it is; empty: a report.
        values: of the template.

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
    """Nothing is loaded, and no script runs but the page's own."""
    return (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
