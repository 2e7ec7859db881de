"""Draw a timeline of facts as SVG or Mermaid, the same bytes for the same facts."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from html import escape

from longmemeval.memory.engram.records import Fact

_WIDTH, _LABEL, _ROW, _TOP = 900, 260, 22, 40
_TICKS = 5
_STYLE = (
    "text{font:12px sans-serif;fill:#222}.tick{fill:#777}line{stroke:#ddd}rect{fill:#4477aa}"
    ".open{fill:#228833}.disputed{fill:#ccbb44}"
    "@media(prefers-color-scheme:dark){text{fill:#eee}.tick{fill:#aaa}line{stroke:#444}}"
)


def svg(facts: Sequence[Fact], end: datetime) -> str:
    """Draw a bar for each fact from when it began to hold to when it stopped, or to the end if it still holds.

    Args:
        facts: in drawing order, from top to bottom.
        end: the moment at the right edge, the last known one.
    """
    start = min((fact.valid_at for fact in facts), default=end - timedelta(1))
    span = max((max(end, start) - start).total_seconds(), 1.0)

    def across(at: datetime) -> float:
        share = min(1.0, max(0.0, (at - start).total_seconds() / span))
        return round(_LABEL + share * (_WIDTH - _LABEL - 20), 1)

    bottom = _TOP + _ROW * len(facts)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 10}" role="img">',
        f"<title>Facts from {start:%Y-%m-%d} to {end:%Y-%m-%d}</title><style>{_STYLE}</style>",
    ]
    for number in range(_TICKS):
        at = start + timedelta(seconds=span * number / (_TICKS - 1))
        anchor = "start" if number == 0 else "end" if number == _TICKS - 1 else "middle"
        drawn.append(f'<line x1="{across(at)}" y1="{_TOP - 8}" x2="{across(at)}" y2="{bottom}"/>')
        drawn.append(f'<text class="tick" x="{across(at)}" y="{_TOP - 14}" text-anchor="{anchor}">{at:%Y-%m-%d}</text>')
    for row, fact in enumerate(facts):
        left, right, top = across(fact.valid_at), across(fact.invalid_at or end), _TOP + _ROW * row
        kind = "disputed" if fact.disputed else "open" if fact.invalid_at is None else "closed"
        drawn.append(f'<text x="{_LABEL - 8}" y="{top + 14}" text-anchor="end">{escape(_label(fact))}</text>')
        drawn.append(
            f'<rect class="{kind}" x="{left}" y="{top + 4}" width="{max(3.0, round(right - left, 1))}" '
            f'height="{_ROW - 8}"><title>{escape(_tooltip(fact))}</title></rect>'
        )
    return "\n".join([*drawn, "</svg>"]) + "\n"


def mermaid(facts: Sequence[Fact], end: datetime) -> str:
    """Draw a Mermaid Gantt chart with a section for each predicate.

    Args:
        facts: sorted by predicate.
        end: the end of the bars of facts that still hold.
    """
    lines = ["gantt", "    dateFormat YYYY-MM-DD", "    axisFormat %Y-%m-%d"]
    section = ""
    for fact in facts:
        if fact.predicate != section:
            section = fact.predicate
            lines.append(f"    section {_plain(section)}")
        until = max(fact.invalid_at or end, fact.valid_at + timedelta(1))
        state = "crit, " if fact.disputed else "active, " if fact.invalid_at is None else "done, "
        lines.append(f"    {_plain(fact.object)} :{state}{fact.valid_at:%Y-%m-%d}, {until:%Y-%m-%d}")
    return "\n".join(lines) + "\n"


def _label(fact: Fact) -> str:
    text = f"{fact.predicate}: {fact.object}"
    return text if len(text) <= 38 else text[:37] + "…"


def _tooltip(fact: Fact) -> str:
    until = f"{fact.invalid_at:%Y-%m-%d}" if fact.invalid_at else "now"
    return f"{fact.text}, {fact.valid_at:%Y-%m-%d} to {until}"


def _plain(text: str) -> str:
    """Return `text` without the characters that are syntax in Mermaid."""
    return re.sub(r"[:;,#%\n]+", " ", text).strip() or "-"
