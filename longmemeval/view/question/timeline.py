"""Draw strips of cells: the sessions that hold the evidence, and those that each run recalled from."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from longmemeval.core.tables.table import escape_html
from longmemeval.core.text.figures import count_of
from longmemeval.view.question.records import Asked, Found, Track

_CELL, _GAP = 10, 1.2
_MOST_TITLES = 150
"""The most sessions for which each cell has a tooltip; in longer histories, equal cells in a row are merged."""
_MOST_DATES = 5


def history_strip(sessions: Sequence[Asked]) -> str:
    """Return the strip of the history as an `svg` element that fills its container."""
    labelled = sum(session.evidence for session in sessions)
    label = f"The history: {count_of(len(sessions), 'session')}, {labelled} with evidence"
    cells = {place: "evidence" if session.evidence else "session" for place, session in enumerate(sessions)}
    return _strip(cells, sessions, label, "history")


def track_strip(track: Track, sessions: Sequence[Asked], name: str, colour: int) -> str:
    """Return the strip of one run.

    Args:
        track: the sessions that the run recalled from.
        sessions: the sessions of the history.
        name: display name of the run.
        colour: number in the CSS class of the run's colour.
    """
    return _strip(track.sessions, sessions, f"{name} {in_words(track, sessions)}", f"run-{colour}")


def in_words(track: Track, sessions: Sequence[Asked]) -> str:
    """Describe a strip for readers who cannot see it; the text follows the name of the run."""
    if not track.known:
        return "does not say what it recalled"
    labelled = [place for place, session in enumerate(sessions) if session.evidence]
    seen = sum(track.sessions.get(place) == "evidence" for place in labelled)
    recalled = sum(state != "cut" for state in track.sessions.values())
    words = f"recalled from {recalled} of {count_of(len(sessions), 'session')}"
    return f"{words}, {seen} of {len(labelled)} with evidence" if labelled else words


def dates_below(sessions: Sequence[Asked]) -> list[str]:
    """Return a few dates at equal distances, including the first and the last."""
    last = len(sessions) - 1
    if last < 0:
        return []
    steps = min(_MOST_DATES, len(sessions))
    places = [round(last * step / max(1, steps - 1)) for step in range(steps)]
    return [sessions[place].date for place in places]


def _strip(cells: Mapping[int, str] | Mapping[int, Found], sessions: Sequence[Asked], label: str, kind: str) -> str:
    marks = _titled(cells, sessions) if len(sessions) <= _MOST_TITLES else _merged(cells)
    width = max(1, len(sessions)) * _CELL
    return (
        f'<svg class="strip {kind}" viewBox="0 0 {width} 10" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape_html(label)}">{"".join(marks)}</svg>'
    )


def _titled(cells: Mapping[int, str], sessions: Sequence[Asked]) -> Iterator[str]:
    states = {"evidence": "evidence", "beside": "recalled", "cut": "found, then cut", "session": "no evidence"}
    for place, found in sorted(cells.items()):
        session = sessions[place]
        words = f"{session.date}, {count_of(session.messages, 'message')}: {states[found]}"
        yield _cell(place, place + 1, found, f"<title>{escape_html(words)}</title>")


def _merged(cells: Mapping[int, str]) -> Iterator[str]:
    """Yield one mark for each row of equal cells."""
    ordered = enumerate(sorted(cells.items()))
    for (_, found), group in groupby(ordered, key=lambda item: (item[1][0] - item[0], item[1][1])):
        places = [place for _, (place, _) in group]
        yield _cell(places[0], places[-1] + 1, found, "")


def _cell(begin: int, end: int, found: str, title: str) -> str:
    width = (end - begin) * _CELL - _GAP
    mark = f'class="{found}" x="{begin * _CELL}" y="0" width="{width:g}" height="10"'
    return f"<rect {mark}>{title}</rect>" if title else f"<rect {mark}/>"
