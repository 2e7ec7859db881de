"""Charts: what is on the Pareto front, and drawings that are equal for equal input and belong to the page."""

import re
from xml.etree import ElementTree

import pytest
from msgspec import structs

from longmemeval.core.text.figures import milliseconds
from longmemeval.measures.abstention import Calibration, ScoreBin
from longmemeval.report.charts.charts import (
    Chart,
    Curve,
    Group,
    Latencies,
    Point,
    Value,
    bar_chart,
    calibration_chart,
    dot_chart,
    far_apart,
    front_of,
    latency_chart,
    recall_chart,
    spread_apart,
    tradeoff_chart,
)
from longmemeval.report.charts.svg import COLOURS, Look, Shown, look_of
from longmemeval.report.page.templates import page_file
from tests.browser import chromium
from tests.measured import FINE, measured


def run(place: int, *, reads_gold: bool = False) -> Shown:
    return Shown("ABCDEFGHIJ"[place], look_of(place, reads_gold=reads_gold))


def point(letter: str, x: float, score: float, *, reads_gold: bool = False) -> Point:
    return Point(run(ord(letter) - ord("A"), reads_gold=reads_gold), x, f"{x:g}", score, f"{score:g}")


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
    assert "".join(one.run.name for one in front_of(points)) == front


def test_no_labels_of_a_chart_touch_on_a_phone() -> None:
    """Axes of large numbers, names of equal scores, scores of ten groups, budgets close to each other."""
    shown = [Shown(f"a memory of some length {place}", look_of(place)) for place in range(6)]
    points = [Point(one, 99_000 + 20_000 * at, "", 0.6 + at / 500, "") for at, one in enumerate(shown)]
    bins = tuple(ScoreBin(0.0123 * at, 0.0123 * at, 20, 0.5, 0.5) for at in range(1, 11))
    drawn = [
        tradeoff_chart("points", "", points, x_axis="prompt tokens per question", score_axis="accuracy"),
        tradeoff_chart(
            "log",
            "",
            [structs.replace(one, x=10.0 ** (at + 1)) for at, one in enumerate(points)],
            x_axis="x",
            score_axis="y",
        ),
        bar_chart(
            "bars", "", "", [Group("cause", tuple(Value(one, 15_000, "15,000") for one in shown))], axis="questions"
        ),
        dot_chart(
            "dots",
            "",
            [
                Group(f"{'x' * 24} {at}, n = 1,000", tuple(Value(one, 0.123 * at, "") for one in shown))
                for at in range(4)
            ],
            axis="accuracy",
        ),
        recall_chart([Curve(one, (1, 3), (0.1, 0.5)) for one in shown]),
        latency_chart([Latencies(one, (1.0, 100_000.0)) for one in shown]),
        calibration_chart(0, shown[0], "accuracy", Calibration(None, 100, None, 0, bins)),
    ]
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 350, "height": 900})
        page.set_content(
            "<style>body { margin: 0; font-family: sans-serif } svg { overflow: visible }</style>"
            + "".join(one.svg for one in drawn)
        )
        assert measured(page) == FINE
    assert far_apart([500, 520, 1000, 4000, 4100]) == [500, 1000, 4000]


def charts() -> list[Chart]:
    """One of each kind, called as in `NAMES`."""
    bars = [
        Group("a < b & $x_1$ \x01", (Value(run(0), 0.5, "50.0%", (0.4, 0.6)), Value(run(1), 0.0, "0.0%", (0.0, 0.1)))),
        Group("second", (Value(run(0), 1.0, "100.0%", (0.9, 1.0)),)),
    ]
    return [
        dot_chart("types", "Types", bars, axis="accuracy", baseline=0.5),
        bar_chart("losses", "Losses", "words", [Group("x", (Value(run(0), 0, "0"),))], axis="questions"),
        tradeoff_chart("cost", "Cost", [point("A", 0, 0.5), point("B", 3, 0.7)], x_axis="$", score_axis="accuracy"),
        tradeoff_chart("tokens", "Tokens", [point("A", 10, 0.5), point("B", 9e5, 0.7)], x_axis="t", score_axis="F1"),
        recall_chart([Curve(run(0), (1, 2, 50), (0.1, 0.5, 1.0)), Curve(run(9), (1,), (0.1,))]),
        latency_chart([Latencies(run(0), (0.0, 5.0, 9000.0)), Latencies(run(1), (3.0,))]),
    ]


NAMES = ("types", "losses", "cost", "tokens", "recall", "latency")


@pytest.fixture(scope="module")
def drawn() -> dict[str, Chart]:
    return {chart.name: chart for chart in charts()}


@pytest.mark.slow
def test_drawings_are_equal_for_equal_input(drawn: dict[str, Chart]) -> None:
    assert tuple(drawn) == NAMES
    assert charts() == list(drawn.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_belongs_to_the_page(drawn: dict[str, Chart], name: str) -> None:
    chart = drawn[name]
    root = ElementTree.fromstring(chart.svg)
    shapes = [one for one in root.iter() if one.tag in {"path", "use", "text"}]
    assert len(shapes) > 10
    # No colour of its own, no font, no address, no date; ids begin with the chart's name, and every one is used.
    assert re.findall(r"#[0-9a-f]{6}", chart.svg) == []
    assert "var(--" in chart.svg
    assert "http" not in chart.svg
    assert "font-family" not in chart.svg
    # A policy may forbid styles in elements.
    assert " style=" not in chart.svg
    ids = re.findall(r' id="([^"]+)"', chart.svg)
    assert all(one.startswith(f"{chart.name}-") for one in ids)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', chart.svg)) <= {(one, "") for one in ids} | {
        ("", one) for one in ids
    }


def test_144_runs_differ_and_controls_are_grey() -> None:
    looks = [look_of(place) for place in range(COLOURS**2)]
    assert len(set(looks)) == COLOURS**2
    assert [one.colour for one in looks[:COLOURS]] == list(range(1, COLOURS + 1))
    assert {look_of(place, control=True).colour for place in range(COLOURS)} == {0}
    assert look_of(3, control=True, reads_gold=True) == Look(0, 3, hatched=True)
    style = page_file("palette.css")
    for name in (f"--run-{number}" for number in range(COLOURS + 1)):
        assert len(re.findall(rf"{name}: light-dark\(#\w{{6}}, #\w{{6}}\)", style)) == 1


def test_a_ceiling_is_a_dotted_line_across_its_group() -> None:
    values = tuple(Value(run(place), 0.5 + place / 10, "", (0.4, 0.7)) for place in range(3))
    plain, marked = (
        dot_chart("d", "D", [Group("one", values, ceiling), Group("two", values)], axis="accuracy")
        for ceiling in (None, 0.9)
    )
    assert marked.svg.count("stroke-dasharray") == plain.svg.count("stroke-dasharray") + 1
    assert ("ceiling" in marked.description, "ceiling" in plain.description) == (True, False)


def test_a_scale_holds_all_values_and_is_no_longer_than_that_needs() -> None:
    near = [Group(name, (Value(run(place), 0.5, "50%", (0.43, 0.58)),)) for place, name in enumerate("ab")]
    texts = {one.text for one in ElementTree.fromstring(dot_chart("d", "D", near, axis="F1").svg).iter("text")}
    assert {"40%", "60%"} < texts
    assert not {"0%", "30%", "100%"} & texts


@pytest.mark.slow
def test_names_from_data_are_drawn_as_text() -> None:
    first = charts()[0]
    texts = [text.text for text in ElementTree.fromstring(first.svg).iter("text")]
    assert "a < b & $x_1$ ⟨U+0001⟩" in texts
    assert first.figures.rows[1] == ["a < b & $x_1$ \x01", "B", "0.0%", "[0.0, 10.0]"]


@pytest.mark.parametrize(
    ("value", "text"), [(0.04, "0.0 ms"), (9.96, "10.0 ms"), (340, "340 ms"), (1234, "1.2 s"), (61_000, "61 s")]
)
def test_durations(value: float, text: str) -> None:
    assert milliseconds(value) == text


def test_labels_of_lines_that_end_together_stay_beside_the_chart() -> None:
    assert spread_apart([0.5, 0.2, 0.5], 0.1) == pytest.approx([0.5, 0.2, 0.6])
    together = spread_apart([1.0] * 11, 0.055)
    assert together == pytest.approx([1.05 - 0.055 * place for place in range(10, -1, -1)])
    assert spread_apart([1.0, 0.99, 0.3], 0.1) == pytest.approx([1.05, 0.95, 0.3])
