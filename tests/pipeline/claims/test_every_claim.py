"""Every shipped claim can be shown, whatever is missing to try it."""

from pathlib import Path

from longmemeval.pipeline.claims.catalogue import all_claims
from longmemeval.pipeline.claims.state import state_of
from longmemeval.report.tables.claims import claim_lines


def test_every_claim_is_shown_line_by_line(tmp_path: Path) -> None:
    for claim in all_claims():
        lines = [line for line in claim_lines(claim, state_of(claim, tmp_path)) if isinstance(line, str)]
        assert lines[0].startswith(f"{claim.id}: {claim.system}"), claim.id
        assert any(line.startswith("To try it: ") for line in lines), claim.id
