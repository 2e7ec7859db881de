"""Figures and sentences that no reader stumbles over: no minus before zero, no plural of one, no dump of a protocol."""

from typing import Any

import pytest

from longmemeval.core.text.figures import percent, signed_bounds
from longmemeval.report.tables.comparison import part_notes


def test_nothing_is_shown_as_minus_zero() -> None:
    assert percent(-0.0001) == "0.0%"
    assert signed_bounds((-0.0004, 0.02)) == "[0.0, +2.0]"
    assert signed_bounds((-0.02, -0.0)) == "[-2.0, 0.0]"


def told(can: dict[str, str] | None = None, **changes: object) -> dict[str, Any]:
    """What a part of a memory from outside says of itself, all as the tables assume but for the changes."""
    usual = {"usual provenance": "message", "dates": "native", "signals": "not told", "telemetry": "off"}
    usual |= {"persistence": "directory"} | (can or {})
    whole = {
        "service": "Mine",
        "packages": [{"mine": "1.0"}],
        "capabilities": [usual],
        "batches": 9,
        "failed_batches": 0,
    }
    return whole | {"models": [], "failed_model_calls": 0, "failed_haystacks": 0, "haystacks": 3} | changes


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({}, "mem: mine 1.0."),
        ({"failed_batches": 2}, "mem: mine 1.0; 2 of 9 batches failed."),
        ({"can": {"dates": "text"}}, "mem: mine 1.0; session dates are passed as text only."),
        ({"can": {"usual provenance": "none"}}, "mem: mine 1.0; it does not name the sources of its results."),
        ({"remark": ["tried against a stub"]}, "mem: mine 1.0. Tried against a stub."),
    ],
)
def test_a_memory_from_outside_is_noted_for_what_differs(changes: dict[str, Any], note: str) -> None:
    assert next(iter(part_notes("mem", {"part": told(**changes)}))) == note
