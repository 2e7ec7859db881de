"""One table in every form: the same cells, each made safe for where it is shown."""

from msgspec import Struct

from longmemeval.core.tables import table as render
from longmemeval.core.tables.latex import latex
from longmemeval.core.tables.table import Column, Link, Table, frame, one_line, tabulate


class Fruit(Struct):
    name: str
    count: int
    price: float | None
    ripe: bool = True


FRUITS = [Fruit("apple", 1234, 0.5), Fruit("<b>kiwi_\x1b[31m & co", 2, None, ripe=False)]
COLUMNS: list[Column[Fruit]] = [
    Column("fruit", lambda one: one.name, "text"),
    Column("how\nmany", lambda one: one.count),
    Column("price", lambda one: one.price),
    Column("ripe", lambda one: one.ripe),
]


def table(*breaks: int) -> Table:
    return tabulate("Fruit | 100%", COLUMNS, FRUITS, breaks=breaks)


def test_cells_show_numbers_truths_and_what_is_unknown() -> None:
    assert table().headings == ["fruit", "how\nmany", "price", "ripe"]
    assert table().rows[0] == ["apple", "1,234", "0.5", "yes"]
    assert table().rows[1][1:] == ["2", "\u2013", "no"]


def test_text_is_what_a_terminal_shows() -> None:
    lines = render.text(table(1), 80).splitlines()
    assert lines[0] == "Fruit | 100%"
    assert [line.split() for line in lines if "apple" in line] == [["apple", "1,234", "0.5", "yes"]]
    assert "\x1b" not in "".join(lines)
    assert any(r"kiwi_\x1b[31m & co" in line for line in lines)
    first, second = (next(n for n, line in enumerate(lines) if name in line) for name in ("apple", "kiwi"))
    assert second == first + 2, "a group is set apart by a line"


def test_html_is_a_table_with_nothing_but_text_in_it() -> None:
    shown = render.html(table(1))
    assert "<caption>Fruit | 100%</caption>" in shown
    assert '<tr class="apart"><th scope="row" class="text name">&lt;b&gt;kiwi_⟨U+001B⟩[31m &amp; co</th>' in shown
    assert shown.count("<td data-title=") == 6
    assert '<td data-title="price">0.5</td>' in shown
    linked = tabulate("", [Column[str]("", lambda one: Link(one, 'x?a=1&b="'), "text")], ["here"])
    assert '<a href="x?a=1&amp;b=&quot;">here</a>' in render.html(linked)


def test_markdown_and_latex_disarm_their_own_signs() -> None:
    assert render.markdown(table()).splitlines() == [
        r"**Fruit \| 100%**",
        "",
        "| fruit | how many | price | ripe |",
        "| --- | ---: | ---: | ---: |",
        "| apple | 1,234 | 0.5 | yes |",
        r"| \<b\>kiwi\_⟨U+001B⟩\[31m \& co | 2 | " + "\u2013 | no |",
    ]
    made = latex(table(1), ["Said", "of it"], "tab:fruit")
    assert "\\caption{Fruit | 100\\%}\n\\label{tab:fruit}" in made
    assert r"{\footnotesize\sloppy Said of it}" in made
    assert r"\begin{tabular}{lrrr}" in made
    assert made.count(r"\midrule") == 2
    assert r"kiwi\_$\langle$U+001B$\rangle$[31m \& co & 2 & -- & no \\" in made


def test_csv_rounds_nothing_and_starts_no_formula() -> None:
    columns: list[Column[float]] = [
        Column("x", lambda one: one),
        Column("formula", lambda one: "=1+1\x07"),
        Column("unknown", lambda one: None),
    ]
    written = render.csv(frame(columns, [1 / 3]), [column.title for column in columns])
    assert written == f"x,formula,unknown\r\n{1 / 3},'=1+1\\x07,\r\n"


def test_what_says_nothing_goes_first_and_comes_back_where_there_is_room() -> None:
    columns: list[Column[tuple[str, str]]] = [
        Column("run", lambda row: row[0], "text"),
        Column("score", lambda row: row[1]),
        Column("zero", lambda row: 0, drop=1),
        Column("same", lambda row: "bm25", "text", drop=2),
        Column("a wide column", lambda row: row[1] * 5, drop=3),
    ]
    rows = [("a", "12.5"), ("b", "50.0")]
    found = tabulate("", columns, rows)
    assert "Not shown at 30 columns: zero, a wide column." in one_line(render.text(found, 30))
    assert "Not shown at 18 columns: zero, same, a wide column." in one_line(render.text(found, 18))
    assert "Not shown at 38 columns: zero, same." in one_line(render.text(found, 38))
