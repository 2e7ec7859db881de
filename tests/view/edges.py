"""Whether something that is wider than its place says so at the edge: its pixels there, told apart."""

from collections import Counter
from io import BytesIO

from PIL import Image
from playwright.sync_api import Locator

BESIDE = 4
"""Pixels between the edge and the column that is looked at."""


def is_shaded_at_right(box: Locator) -> bool:
    """Whether hardly a pixel beside the right edge has the colour that most of the box has, below a head that stays."""
    image = Image.open(BytesIO(box.screenshot())).convert("RGB")
    ground = Counter(image.get_flattened_data()).most_common(1)[0][0]
    sticky = "all => Math.max(0, ...all.map((one) => getComputedStyle(one).position === 'sticky' && one.clientHeight))"
    head = int(box.locator("thead th").evaluate_all(sticky))
    column = [image.getpixel((image.width - BESIDE, y)) for y in range(head, image.height)]
    return sum(one == ground for one in column) < len(column) / 10


def scroll_to_end(box: Locator) -> None:
    """Scroll it sideways as far as it goes."""
    box.evaluate("one => { one.scrollLeft = one.scrollWidth; }")
