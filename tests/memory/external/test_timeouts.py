"""Time-outs as the user sets them."""

import pytest

from longmemeval.errors import HarnessError
from longmemeval.memory.external.connect import connect
from longmemeval.memory.external.transports.service import TIMEOUTS, Timeouts, patience_of


def test_time_outs_are_changed_by_method(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patience_of("") == Timeouts()
    assert patience_of(" add=1200, search = 0.5,") == Timeouts(add=1200.0, search=0.5)
    monkeypatch.setenv(TIMEOUTS, "no_progress=7")
    assert patience_of() == Timeouts(no_progress=7.0)
    assert connect("http://127.0.0.1:1")._timeouts == Timeouts(no_progress=7.0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ad=3", r"Unknown timeout 'ad' .*LONGMEMEVAL_MEMORY_TIMEOUTS.*add"),
        ("attempts=3", "Unknown timeout 'attempts'"),
        ("add", "The timeout 'add' needs a number of seconds"),
        ("add=soon", "The timeout 'add=soon' needs a number of seconds"),
        ("add=0", "needs a number of seconds"),
        ("add=inf", "needs a number of seconds"),
        ("add=nan", "needs a number of seconds"),
    ],
)
def test_what_is_no_time_out_is_refused(text: str, told: str) -> None:
    with pytest.raises(HarnessError, match=told):
        patience_of(text)
