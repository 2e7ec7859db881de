"""`claims table`: makers' figures beside those of others, with intervals and warnings; nothing is left out."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from longmemeval.core.text.figures import UNKNOWN
from longmemeval.pipeline.claims.catalogue import Claim, all_claims, claims_of
from longmemeval.pipeline.claims.field import FieldProduct, field, field_summary
from longmemeval.report.tables.claims import field_document, field_tables
from tests.cli.conftest import Command, command

__all__ = ["command"]

SHIPPED = field(all_claims())


def made(tmp_path: Path, *rows: dict[str, Any], **changes: object) -> tuple[Claim, ...]:
    content = {
        "benchmark": "locomo",
        "source": {"title": "p", "hand": "first"},
        "variant": "v",
        "metric": "accuracy",
        "judge": "not told",
        "cannot": "no",
        "by": "others",
        "product": "P",
        "rows": [{"id": f"r{place}", "system": "s", "value": 0.5} | row for place, row in enumerate(rows)],
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content | changes))
    return claims_of(path)


def product(name: str, dataset: str) -> FieldProduct:
    return next(one for one in SHIPPED if (one.product, one.dataset) == (name, dataset))


def test_every_figure_of_the_independent_table_is_a_claim() -> None:
    """438: the scores, those of groups, and the sizes of contexts that stand without a score or in a column of BEAM."""
    figures, quoted = 0, 0
    for claim in all_claims():
        file = claim.id.partition("/")[0]
        if file.startswith("omnimemeval-"):
            own = (claim.value is not None) + len(claim.by_group)
            own += claim.benchmark == "beam" and claim.context_tokens is not None
            figures += own
            quoted += own if "quoted" in file else 0
            assert claim.source.hand == ("third" if "quoted" in file else "first")
            assert claim.by == ("maker" if "quoted" in file or claim.product == "MemOS" else "others")
    assert (figures, quoted) == (438, 82)


def test_figures_of_groups_give_the_overall_one_but_where_a_warning_says_so() -> None:
    unlike = {
        (one.product, one.dataset, figure.claim.by)
        for one in SHIPPED
        for figure in one.figures
        if any("groups give" in warning for warning in figure.warnings)
    }
    assert unlike == {
        ("Mem0", "locomo10", "maker"),
        ("Mem0", "longmemeval_s", "maker"),
        ("Supermemory", "longmemeval_s", "maker"),
        ("Memori", "longmemeval_s", "others"),
    }
    backboard = product("Backboard", "locomo10").figures[0]
    assert "relabelled categories" in backboard.warnings


def test_a_product_shows_the_makers_figure_then_those_of_others() -> None:
    zep = product("Zep", "locomo10")
    first, *_, last = zep.figures
    assert (first.claim.by, first.claim.value, first.claim.n, first.claim.reader) == ("maker", 0.947, 1540, "gpt-5.4")
    assert first.interval == pytest.approx((0.9344, 0.9569), abs=1e-4)
    assert "relabelled categories" in first.warnings
    assert last.claim.by == "others"
    withdrawn = next(figure for figure in zep.figures if figure.claim.value == 0.8461)
    assert "withdrawn for 75.1" in withdrawn.warnings
    memos = product("MemOS", "locomo10")
    assert ([figure.claim.by for figure in memos.figures], memos.gap) == (["maker"], None)


def test_a_figure_above_a_ceiling_says_so_and_recall_has_none() -> None:
    above = {
        (figure.claim.id, warning)
        for one in SHIPPED
        for figure in one.figures
        for warning in figure.warnings
        if "ceiling" in warning
    }
    locomo = "above the ceiling of 93.6% by audit locomo-audit"
    assert above == {
        ("makers-2026-longmemeval/supermemory-agents", "above the ceiling of 97.4% by audit reme"),
        ("omnimemeval-quoted-locomo/zep", locomo),
        ("omnimemeval-quoted-locomo/memorylake", locomo),
    }
    assert product("MemPalace", "longmemeval_s").figures[0].claim.value == 1.0


def test_what_is_not_told_is_a_dash() -> None:
    """The page of the makers names no reader, judge or number; a context without a score has no figure."""
    tables = {table.title: table for table in field_tables(SHIPPED)}
    rows = tables["longmemeval_s, accuracy"].rows
    (backboard,) = [row for row in rows if row[0] == "Backboard"]
    assert backboard == ["Backboard", "maker", "93.4", UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, "third-hand"]
    (cognee,) = [row for row in tables["beam-10m-full, nugget score of a vendor"].rows if row[0] == "Cognee"]
    assert cognee[2:5] == [UNKNOWN, UNKNOWN, "40,914"]


def test_gap_interval_and_warnings(tmp_path: Path) -> None:
    claims = made(
        tmp_path,
        {"by": "maker", "value": 0.9, "judge": "gpt-4o, official prompts"},
        {"by": "maker", "value": 0.93, "metric": "recall"},
        {"value": 0.78, "n": 500, "judge": "gpt-4o"},
        {"value": 0.8, "judge": "gpt-4o-mini", "cautions": ["old"], "source": {"hand": "third"}},
        {"value": 0.97, "metric": "F1"},
        {"value": 0.4, "group_n": {"a": 1, "b": 3}, "by_group": {"a": 0.5, "b": 0.7}},
    )
    (one,) = field(claims)
    assert one.gap == pytest.approx(0.1)
    figures = {figure.claim.id: figure for figure in one.figures}
    assert [name[-1] for name in figures] == ["1", "0", "4", "3", "2", "5"]
    assert figures["mine/r2"].interval == pytest.approx((0.7416, 0.8141), abs=1e-4)
    warnings = {name[-1]: figure.warnings for name, figure in figures.items()}
    assert warnings["2"] == ()
    assert warnings["1"] == ("other metric: recall",)
    assert warnings["3"] == ("other judge", "old", "third-hand")
    assert warnings["5"] == ("other judge", "its groups give 65.0%")
    assert field_summary(field(claims)).startswith("For 1 of 1 products and datasets with both")
    assert "median difference 10.0 points." in field_summary(field(claims))
    assert field_summary(()).startswith("No product has a figure")
    assert field_document(one)["figures"][2]["judge"] is None


def test_of_a_makers_equal_figures_the_best_known_stays(tmp_path: Path) -> None:
    claims = made(tmp_path, {"by": "maker"}, {"by": "maker", "reader": "r"}, {"value": 0.5}, {"value": 0.5})
    (one,) = field(claims)
    assert [figure.claim.id for figure in one.figures] == ["mine/r1", "mine/r2", "mine/r3"]


def test_the_command_prints_it_in_three_forms(command: Command) -> None:
    shown = command("claims table --benchmark halumem").stdout
    assert "EverMemOS" in shown
    assert "We measured none of them" in shown
    printed = command("claims table --system everos --markdown").stdout
    assert "| EverMemOS (EverOS) | maker | 93.0 |" in printed
    assert "omnimemeval-quoted-locomo/everos" in printed
    found = json.loads(command("claims table --benchmark halumem --json").stdout)
    assert {one["dataset"] for one in found} == {"halumem"}
    assert {figure["n"] for one in found for figure in one["figures"]} == {None}
    assert command("claims table --json --markdown").code == 2


def test_a_selection_leaves_a_product_and_its_dataset_as_they_are(command: Command) -> None:
    whole = {one.product: field_document(one) for one in SHIPPED if one.dataset == "locomo10"}
    found = json.loads(command("claims table --benchmark locomo --system zep --json").stdout)
    assert found == json.loads(json.dumps([whole["Zep"]]))
