"""Making text from data safe to show in documents and in terminals."""

import re

# Characters that a reader does not see but an editor or a browser acts on: control characters, and those that reverse
# the direction of writing.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """Return the text with invisible characters written out as `⟨U+202E⟩`; tabs and line ends stay."""
    return _INVISIBLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


def escaped(text: str) -> str:
    r"""Return the text with control characters of a terminal as escapes such as `\x1b`; tabs and line ends stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)
