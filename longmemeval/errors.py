"""Errors a user can act on: what is wrong, where, and what to do. The command line prints them as one paragraph."""

import difflib
from collections.abc import Iterable

from longmemeval.core.remote.places import as_addresses
from longmemeval.core.secrets.redaction import hide

_SMALLER_PROMPTS = (
    "Begin a new run with a smaller memory configuration (--budget), with --on-overflow drop-oldest or drop-newest "
    "(and --context-window where the model's window is not known), or with a model that takes more"
)


class HarnessError(Exception):
    """Base of all errors that can be fixed outside this code.

    Args:
        what: what is wrong, one sentence without the final full stop.
        where: the place: file, record number, question id, field path. Empty when `what` says it all.
        fix: what to do, one sentence without the final full stop.

    None of the three texts holds a secret value afterwards, wherever it came from (`redaction.hide`).
    `exit_code` is what the command line returns: 2, the user's input is at fault.
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


class DataError(HarnessError):
    """A data set file does not hold what its format demands."""


class FixtureError(HarnessError):
    """A prepared fixture is missing, damaged, of a newer format, or made from something else."""


class IntegrityError(HarnessError):
    """A check failed: a hash does not hold, a number does not recompute or is not what its reference gives."""

    exit_code = 3


class RegressionError(HarnessError):
    """A run is significantly worse than its baseline, by more than the margin."""

    exit_code = 4


class ModelError(HarnessError):
    """One call failed for good: retrying it cannot help, the next question may still succeed.

    Args:
        what: as of every error, like `where` and `fix`.
        may_be_billed: whether the provider may charge for the call although it failed.
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
    """One call failed in a way that may pass: 429, 5xx, time-out, lost connection.

    Args:
        retry_after: seconds the server asked to wait, or None.
        too_many: whether the server refused it because of a rate limit, 429.
        unreachable: whether no connection could be made.
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
    """A call was answered with nothing, also when it was repeated."""


class RecallError(HarnessError):
    """A memory system failed at one history or one question; others may succeed."""

    exit_code = 1


class EndpointDownError(HarnessError):
    """An endpoint answered nothing but failures for as long as was to be waited. Finished work is kept."""

    exit_code = 1


class StoreDownError(EndpointDownError):
    """The same of a store on the network: nothing can be read or written there, so tasks under way are lost too."""


class BatchCancelledError(HarnessError):
    """Somebody cancelled a batch at the provider. Finished work is kept."""

    exit_code = 1


class SpendingLimitError(HarnessError):
    """The next call could cost more than is left. Finished work is kept."""

    exit_code = 1


class FatalModelError(HarnessError):
    """No call can succeed: no key, a refused key, an unknown model, an empty account. Stops the run at once."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Say which valid name was probably meant.

    Args:
        name: the name as given.
        valid: all names that would have been accepted.

    Returns:
        "Did you mean 'x'? Valid: a, b, c" or, without a near one, "Valid: a, b, c"; long lists are cut to 12.
    """
    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    hint = f"Did you mean '{close[0]}'? " if close else ""
    return f"{hint}Valid: {listed or 'none'}"
