"""Charts: what is on the Pareto front, and drawings that are equal for equal input and belong to the page."""

import re
from xml.etree import ElementTree

import pytest

from longmemeval.core.text.figures import milliseconds
from longmemeval.report.charts.charts import (
    Bar,
    BarGroup,
    Chart,
    Curve,
    Point,
    bar_chart,
    front_of,
    recall_chart,
    tradeoff_chart,
)
from longmemeval.report.charts.distributions import Latencies, latency_chart


def point(letter: str, x: float, score: float, *, reads_gold: bool = False) -> Point:
    return Point(ord(letter) - ord("A"), letter, "m", x, f"{x:g}", score, f"{score:g}", reads_gold)


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ([point("A", 1, 0.5)], "A"),
        # B costs more and is better, C costs more than B and is not better than it, D beats nobody.
        ([point("A", 1, 0.5), point("B", 2, 0.7), point("C", 3, 0.7), point("D", 2, 0.6)], "AB"),
        # Equal in both: neither beats the other.
        ([point("A", 1, 0.5), point("B", 1, 0.5)], "AB"),
        ([point("A", 1, 0.5), point("B", 1, 0.6)], "B"),
        # A ceiling is no memory system.
        ([point("A", 1, 0.9, reads_gold=True), point("B", 2, 0.5)], "B"),
    ],
)
def test_pareto_front(points: list[Point], front: str) -> None:
    assert "".join(one.letter for one in front_of(points)) == front


def charts() -> list[Chart]:
    bars = [
        BarGroup("a < b & $x_1$ \x01", (Bar(0, "A", 0.5, "50.0 %", (0.4, 0.6)), Bar(1, "B", 0.0, "0.0 %", (0.0, 0.1)))),
        BarGroup("second", (Bar(0, "A", 1.0, "100.0 %", (0.9, 1.0)),)),
    ]
    return [
        bar_chart("types", "Types", "words", bars, fractions=True, axis="accuracy"),
        bar_chart(
            "losses", "Losses", "words", [BarGroup("x", (Bar(0, "", 0, "0"),))], fractions=False, axis="questions"
        ),
        tradeoff_chart("cost", "Cost", [point("A", 0, 0.5), point("B", 3, 0.7)], x_axis="$", score_axis="accuracy"),
        tradeoff_chart("tokens", "Tokens", [point("A", 10, 0.5), point("B", 9e5, 0.7)], x_axis="t", score_axis="F1"),
        recall_chart([Curve(0, "A", (1, 2, 50), (0.1, 0.5, 1.0)), Curve(9, "J", (1,), (0.1,))]),
        latency_chart([Latencies(0, "A", (0.0, 5.0, 9000.0)), Latencies(1, "B", (3.0,))]),
    ]


@pytest.mark.slow
def test_drawings_are_equal_for_equal_input() -> None:
    assert charts() == charts()


@pytest.mark.parametrize("chart", charts(), ids=lambda chart: chart.name)
def test_a_drawing_belongs_to_the_page(chart: Chart) -> None:
    root = ElementTree.fromstring(chart.svg)
    shapes = [one for one in root.iter() if one.tag in {"path", "use", "text"}]
    assert len(shapes) > 10
    # No colour of its own, no font, no address, no date; ids begin with the chart's name, and every one is used.
    assert re.findall(r"#[0-9a-f]{6}", chart.svg) == []
    assert "var(--" in chart.svg
    assert "http" not in chart.svg
    assert "font-family" not in chart.svg
    ids = re.findall(r' id="([^"]+)"', chart.svg)
    assert all(one.startswith(f"{chart.name}-") for one in ids)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', chart.svg)) <= {(one, "") for one in ids} | {
        ("", one) for one in ids
    }


@pytest.mark.slow
def test_names_from_data_are_drawn_as_text() -> None:
    first = charts()[0]
    texts = [text.text for text in ElementTree.fromstring(first.svg).iter("text")]
    assert "a < b & $x_1$ ⟨U+0001⟩" in texts
    assert first.figures.rows[1] == ["a < b & $x_1$ \x01", "B", "0.0 %", "[0.0, 10.0]"]


@pytest.mark.parametrize(
    ("value", "text"), [(0.04, "0.0 ms"), (9.96, "10.0 ms"), (340, "340 ms"), (1234, "1.2 s"), (61_000, "61 s")]
)
def test_durations(value: float, text: str) -> None:
    assert milliseconds(value) == text
