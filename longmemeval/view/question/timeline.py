"""Draw which sessions hold the evidence and which of them each run recalled: a strip of cells for each."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from longmemeval.core.tables.render import escape_html
from longmemeval.core.text.figures import count_of
from longmemeval.view.question.records import Asked, Found, Track

_CELL, _GAP = 10, 1.2
_MOST_TITLES = 150
"""Sessions up to which each cell says its date to the pointer; of longer histories, cells alike in a row are one."""
_MOST_DATES = 5


def history_strip(sessions: Sequence[Asked]) -> str:
    """Return the strip of the history as an `svg` element that fills its place."""
    labelled = sum(one.evidence for one in sessions)
    label = f"The history: {count_of(len(sessions), 'session')}, {labelled} with evidence"
    cells = {place: "evidence" if one.evidence else "session" for place, one in enumerate(sessions)}
    return _strip(cells, sessions, label, "history")


def track_strip(track: Track, sessions: Sequence[Asked], name: str, colour: int) -> str:
    """Return the strip of one run.

    Args:
        track: what it recalled.
        sessions: of the history.
        name: the run's.
        colour: number of its class.
    """
    return _strip(track.sessions, sessions, f"{name} {in_words(track, sessions)}", f"run-{colour}")


def in_words(track: Track, sessions: Sequence[Asked]) -> str:
    """Return what a strip shows, for those who do not see it; it goes on after the name of the run."""
    if not track.known:
        return "does not say what it recalled"
    labelled = [place for place, one in enumerate(sessions) if one.evidence]
    seen = sum(track.sessions.get(place) == "evidence" for place in labelled)
    recalled = sum(found != "cut" for found in track.sessions.values())
    words = f"recalled from {recalled} of {count_of(len(sessions), 'session')}"
    return f"{words}, {seen} of {len(labelled)} with evidence" if labelled else words


def dates_below(sessions: Sequence[Asked]) -> list[str]:
    """Return a few dates at equal distances, the first and the last among them."""
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
    words = {"evidence": "evidence", "beside": "recalled", "cut": "found, then cut", "session": "no evidence"}
    for place, found in sorted(cells.items()):
        one = sessions[place]
        said = f"{one.date}, {count_of(one.messages, 'message')}: {words[found]}"
        yield _cell(place, place + 1, found, f"<title>{escape_html(said)}</title>")


def _merged(cells: Mapping[int, str]) -> Iterator[str]:
    """Yield one mark for cells alike in a row."""
    ordered = enumerate(sorted(cells.items()))
    for (_, found), group in groupby(ordered, key=lambda one: (one[1][0] - one[0], one[1][1])):
        places = [place for _, (place, _) in group]
        yield _cell(places[0], places[-1] + 1, found, "")


def _cell(begin: int, end: int, found: str, title: str) -> str:
    width = (end - begin) * _CELL - _GAP
    mark = f'class="{found}" x="{begin * _CELL}" y="0" width="{width:g}" height="10"'
    return f"<rect {mark}>{title}</rect>" if title else f"<rect {mark}/>"
