"""Errors a user can act on: what is wrong, where, and what to do. The command line prints them as one paragraph."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from longmemeval.core.remote.places import as_addresses
from longmemeval.core.secrets.redaction import hide
from longmemeval.core.text.figures import listed

_SMALLER_PROMPTS = (
    "Begin a new run with a smaller memory configuration (--budget), with --on-overflow drop-oldest or drop-newest "
    "(and --context-window where the model's window is not known), or with a model that takes more"
)


class HarnessError(Exception):
    """Base class of all errors that users can fix.

    Args:
        what: what failed, one sentence without the final full stop.
        where: location: file, record number, question id, field path; empty if `what` is sufficient.
        fix: the remedy, one sentence without the final full stop.

    Secret values are removed from all three texts, wherever they came from (`redaction.hide`). `exit_code` is the exit
    code of the command line: 2, the user's input is wrong.
    """

    exit_code = 2

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        what, where, fix = (as_addresses(hide(text)) for text in (what, where, fix))
        super().__init__(what, where, fix)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        remedy = f" {self.fix}." if self.fix else ""
        return f"{self.what}{place}.{remedy}"

    def _render_traceback_(self) -> list[str]:
        """Return what IPython and notebooks show: one traceback, of the user's own code, and the message."""
        import traceback

        frames = [frame for link in chain(self) for frame in traceback.extract_tb(link.__traceback__)]
        own = [frame for frame in frames if not frame.filename.startswith(_not_theirs())]
        shown = ["Traceback (most recent call last):\n", *traceback.format_list(own)]
        return [hide(line).rstrip("\n") for line in shown] + [f"{type(self).__name__}: {self}"]


def _not_theirs() -> tuple[str, ...]:
    """Return the beginnings of the file names of code that no user wrote: this package, Python, other packages."""
    import sysconfig

    return (str(Path(__file__).parent), "<frozen", *(sysconfig.get_path(name) for name in ("stdlib", "purelib")))


class DataError(HarnessError):
    """A dataset file does not match its format."""


class FixtureError(HarnessError):
    """A prepared fixture is missing, damaged, of a newer format, or made from something else."""


class IntegrityError(HarnessError):
    """A check failed: a hash does not match, or a number cannot be recomputed or differs from its reference."""

    exit_code = 3


class NoAnswersError(HarnessError):
    """A run has no answers, so there is nothing to grade or to compare."""


class RegressionError(HarnessError):
    """A run is significantly worse than its baseline, by more than the margin."""

    exit_code = 4


class ModelError(HarnessError):
    """One call failed for good: retrying it cannot help, the next question may still succeed.

    Args:
        may_be_billed: True if the provider may charge for the call although it failed.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", fix: str = "", may_be_billed: bool = False) -> None:
        super().__init__(what, where=where, fix=fix)
        self.may_be_billed = may_be_billed


class ContextOverflowError(ModelError):
    """A prompt is larger than the model's window, by our count or by the server's; `fix` has a default."""

    def __init__(self, what: str, *, where: str = "", fix: str = "", may_be_billed: bool = False) -> None:
        super().__init__(what, where=where, fix=fix or _SMALLER_PROMPTS, may_be_billed=may_be_billed)


class TransientModelError(ModelError):
    """One call failed in a transient way: 429, 5xx, timeout, lost connection.

    Args:
        retry_after: seconds the server asked to wait, or None.
        too_many: True if the server refused it because of a rate limit, 429.
        unreachable: True if no connection could be made.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        fix: str = "",
        may_be_billed: bool = False,
        retry_after: float | None = None,
        too_many: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(what, where=where, fix=fix, may_be_billed=may_be_billed)
        self.retry_after = retry_after
        self.too_many, self.unreachable = too_many, unreachable


class EmptyReplyError(ModelError):
    """The reply to a call was empty, also when it was repeated."""


class RecallError(HarnessError):
    """A memory system failed at one history or one question; others may succeed."""

    exit_code = 1


class EndpointDownError(HarnessError):
    """An endpoint failed every call for the whole waiting time. Finished work is kept."""

    exit_code = 1


class StoreDownError(EndpointDownError):
    """A store on the network failed every call for the whole waiting time.

    Nothing can be read or written there, so running tasks are lost too.
    """


class BatchCancelledError(HarnessError):
    """A batch was cancelled at the provider. Finished work is kept."""

    exit_code = 1


class SpendingLimitError(HarnessError):
    """The next call could cost more than is left. Finished work is kept."""

    exit_code = 1


class FatalModelError(HarnessError):
    """No call can succeed: no key, a refused key, an unknown model, an empty account. Stops the run at once."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Suggest the valid name that was probably meant.

    Args:
        name: the given name.
        valid: all accepted names.

    Returns:
        "Did you mean 'x'? Valid: a, b, c" or, without a close one, "Valid: a, b, c"; long lists are cut to 12.
    """
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"{hint}Valid: {listed(names, 12) or 'none'}"


@contextmanager
def needed(what: str, fix: str, *, where: str = "", kind: type[HarnessError] = HarnessError) -> Iterator[None]:
    """Turn the failure to import a library into an error that says how to install it.

    Args:
        what: sentence that says what needs which library.
        fix: how to install it, and the alternatives.
        where: the option or name that requires it.
        kind: class of the error.

    Raises:
        HarnessError: it is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise kind(what, where=where, fix=fix) from error


def chain(error: BaseException) -> Iterator[BaseException]:
    """Iterate over an error and its causes, outermost first."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__
