"""docs/claims.md says of each claim what its file says, and gives verdicts that follow from the figures beside them."""

import re

from longmemeval.core.text.figures import in_percent
from longmemeval.pipeline.claims.catalogue import all_claims
from longmemeval.pipeline.claims.verdict import Measured, verdict_on
from tests.support import ROOT

PAGE = (ROOT / "docs" / "claims.md").read_text()
CLAIMS = {claim.id: claim for claim in all_claims()}
TRIED = re.compile(r"\| `([^`]+)` \| ([\d.]+) \| ([\d.]+) \\\[([\d.]+), ([\d.]+)\\\] \| ([\d,]+) \| ([^|]+) \|")


def test_every_claim_on_the_page_is_one() -> None:
    named = set(re.findall(r"`([a-z0-9.+-]+/[a-z0-9.+-]+)`", PAGE)) - {"longmemeval/pipeline"}
    assert {name for name in named if name.partition("/")[0] in {one.partition("/")[0] for one in CLAIMS}} <= set(
        CLAIMS
    )


def test_verdicts_follow_from_the_figures_beside_them() -> None:
    rows = TRIED.findall(PAGE)
    assert len(rows) >= 12
    for identifier, claimed, value, low, high, n, told in rows:
        claim = CLAIMS[identifier]
        assert claimed == in_percent(claim.value), identifier
        found = Measured(float(value) / 100, (float(low) / 100, float(high) / 100), int(n.replace(",", "")))
        finding = verdict_on(claim, found).finding
        # Figures on the page are rounded: what stands on an edge may fall to either side.
        shown = {"cannot be told": "inconclusive"}.get(finding, finding)
        assert told.startswith(shown), (identifier, finding)


def test_enough_can_be_tried() -> None:
    """Twenty tables and more, twelve of them with a figure that can be tried, given a key or without one."""
    tables = {(claim.source.title, claim.source.table) for claim in CLAIMS.values()}
    tried = {(claim.source.title, claim.source.table) for claim in CLAIMS.values() if claim.settings is not None}
    assert len(tables) >= 20
    assert len(tried) >= 12
