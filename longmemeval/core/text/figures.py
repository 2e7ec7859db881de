"""Formatting of figures: counts, shares, intervals, money, time, sizes, lists. Rounding happens only here."""

import re
from collections.abc import Callable, Sequence

UNKNOWN = "\u2013"
"""Text for an unknown figure: a dash."""
LEAST_DOLLARS = 0.0001
"""The smallest sum in US dollars that is written as a number."""


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Return the number and its noun: "1 question", "1,986 questions".

    Args:
        noun: singular form.
        plural: plural form, if it is not the singular with an "s".
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def count(value: float | None) -> str:
    """Return a count, or a mean of counts, as `1,986`."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def listed(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the names, or if there are more than `most` the first ones: "a, b and 3 more"."""
    left = len(names) - most
    return separator.join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def in_percent(fraction: float | None) -> str:
    """Return a fraction as `83.6`, in percent, for a cell below a heading that says so."""
    return UNKNOWN if fraction is None else f"{fraction * 100:z.1f}"


_MOST_DECIMALS = 6


def percent(fraction: float | None, decimals: int = 1) -> str:
    """Return a fraction as `83.6%`."""
    return UNKNOWN if fraction is None else f"{fraction * 100:z.{decimals}f}%"


def percents(first: float, second: float) -> tuple[str, str]:
    """Return two fractions as `percent` does, with more decimals if they differ and would otherwise read alike."""
    texts = percent(first), percent(second)
    decimals = 1
    while texts[0] == texts[1] and first != second and decimals < _MOST_DECIMALS:
        decimals += 1
        texts = percent(first, decimals), percent(second, decimals)
    return texts


def bounds(interval: tuple[float, float] | None) -> str:
    """Return an interval of fractions as `[80.1, 86.6]`, in percent."""
    return UNKNOWN if interval is None else f"[{in_percent(interval[0])}, {in_percent(interval[1])}]"


def signed(fraction: float) -> str:
    """Return a difference of fractions as `+1.2`, in points; zero is `0.0`, without sign."""
    text = f"{fraction * 100:+z.1f}"
    return "0.0" if text == "+0.0" else text


def points(fraction: float) -> str:
    """Return the size of a difference, a fraction, as `12.5 points`."""
    return f"{in_percent(fraction)} points"


def signed_bounds(interval: tuple[float, float]) -> str:
    """Return the interval of a difference in points as `[-1.2, +3.4]`."""
    return f"[{signed(interval[0])}, {signed(interval[1])}]"


def p_value(value: float) -> str:
    """Return a p value with three decimals."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def in_dollars(usd: float | None, *, exact: bool = False) -> str:
    """Return a sum of US dollars: `$0` for nothing at all, a dash if unknown.

    Args:
        exact: True to write less than a tenth of a cent with two digits, as messages about limits do.
    """
    if usd is None:
        return UNKNOWN
    if exact and 0 < usd < 0.001:
        return f"${usd:.2g}"
    return f"${usd:,.4f}" if usd >= LEAST_DOLLARS else f"<${LEAST_DOLLARS:.4f}" if usd else "$0"


def span(low: float | None, high: float | None, form: Callable[[float | None], str]) -> str:
    """Return a range such as `10 to 12`, or one figure if both ends look the same."""
    if low is None or high is None:
        return UNKNOWN
    least, most = form(low), form(high)
    return least if least == most else f"{least} to {most}"


def duration(seconds: float | None) -> str:
    """Return a duration as `40 s`, `3 min`, `2 h 5 min`, `3 d 4 h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 36:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def ms(milliseconds: float | None) -> str:
    """Return milliseconds for a cell below a heading that names the unit; small numbers get a decimal."""
    return f"{milliseconds:.1f}" if milliseconds is not None and milliseconds < 9.95 else count(milliseconds)


def milliseconds(value: float | None) -> str:
    """Return a short time with its unit: `8.5 ms`, `340 ms`, `1.2 s`."""
    if value is None:
        return UNKNOWN
    if value >= 1000:
        return f"{value / 1000:,.1f} s" if value < 10_000 else f"{value / 1000:,.0f} s"
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"


def shown_bytes(size: float | None) -> str:
    """Return a number of bytes as `3.2 GB`, `45 MB` or `120 kB`."""
    if size is None:
        return UNKNOWN
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 10 * unit else f"{size / unit:,.0f} {name}"
    return f"{size / 1e3:,.0f} kB"


# Making text from data safe to show in documents and in terminals.

# Characters that a reader does not see but an editor or a browser acts on: control characters, and those that reverse
# the direction of writing.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """Return the text with invisible characters written out as `⟨U+202E⟩`; tabs and line ends stay."""
    return _INVISIBLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


def escaped(text: str) -> str:
    r"""Return the text with control characters of a terminal as escapes such as `\x1b`; tabs and line ends stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
