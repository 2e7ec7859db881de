"""What a page looks like in a browser, measured: what is too wide, what lies on what, what is torn apart."""

from typing import NamedTuple

from playwright.sync_api import Page

_MEASURE = r"""() => {
  const seen = (one) => {
    const box = one.getBoundingClientRect();
    return box.width > 1 && box.height > 1;
  };
  const wider = [...document.querySelectorAll(".scroll, .box, .drawing, nav")]
    .filter((one) => seen(one) && one.scrollWidth > one.clientWidth + 1)
    .map((one) => one.ariaLabel ?? one.className);
  const overlapping = [];
  for (const drawing of document.querySelectorAll("svg")) {
    const labels = [...drawing.querySelectorAll("text")].filter(seen);
    const boxes = labels.map((one) => one.getBoundingClientRect());
    const clash = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 3 && b.top < a.bottom - 3;
    boxes.forEach((one, a) => boxes.slice(0, a).forEach((other, b) => {
      if (clash(one, other)) overlapping.push(`${labels[b].textContent} | ${labels[a].textContent}`);
    }));
  }
  const torn = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (node.parentElement.closest("script, style, svg, pre, .hidden-text, .upright")) continue;
    for (const word of node.data.matchAll(/[^\s]{4,}/g)) {
      const range = document.createRange();
      range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
      const boxes = [...range.getClientRects()].filter((box) => box.width > 1);
      const lines = new Set(boxes.map((box) => Math.round(box.top)));
      if (lines.size > Math.max(2, word[0].length / 8)) torn.push(word[0]);
    }
  }
  return [Math.max(0, document.documentElement.scrollWidth - innerWidth), wider, overlapping, torn];
}"""


class Measured(NamedTuple):
    """What is wrong with the layout of a page."""

    over: int
    """Pixels by which the page is wider than the window."""
    wider: list[str]
    """Boxes that have to be scrolled sideways."""
    overlapping: list[str]
    """Pairs of labels of one drawing that lie on each other."""
    torn: list[str]
    """Words over more than two lines, or with fewer than eight letters on each."""


FINE = Measured(0, [], [], [])


def measured(page: Page) -> Measured:
    """Measure what is visible of a page."""
    return Measured(*page.evaluate(_MEASURE))
