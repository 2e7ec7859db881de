"""Warnings of the scores in a list of runs."""

from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from longmemeval.errors import HarnessError
from longmemeval.results.graded.graded_run import load_graded
from longmemeval.results.listing import ListedRun
from longmemeval.results.scores.remembered import Remembered
from longmemeval.results.scores.warnings import ScoreWarning
from longmemeval.settings import Folders

_LOOKED_AT = 30
"""The longest list whose scores are searched for warnings."""


class ListWarnings(Struct, frozen=True):
    """The warnings of listed scores."""

    by_run: dict[str, tuple[ScoreWarning, ...]]
    """Warnings of each graded run that was looked at, by its id."""
    unknown: int
    """Number of graded runs that were not looked at, or cannot be."""


def warnings_of(listed: Sequence[ListedRun], folders: Folders) -> ListWarnings:
    """Return the warnings of the first score of each graded run.

    They depend on the current answers, questions and checks of judges, so every run is read; the runs of long lists
    are not.
    """
    graded = [entry for entry in listed if entry.scores and entry.kind != "retrieval"]
    found, remembered = {}, Remembered.among(folders)
    for entry in graded if len(graded) <= _LOOKED_AT else ():
        with suppress(HarnessError, OSError):  # Its data may have moved: the list does without it.
            (run,) = load_graded([entry.run], folders, judge=entry.scores[0].judge, remembered=remembered)
            found[entry.run] = tuple(run.summary.warnings)
    return ListWarnings(found, len(graded) - len(found))
