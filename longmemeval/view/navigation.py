"""The pages that every page links to, in the order of the links."""

NAVIGATION: tuple[tuple[str, str], ...] = (
    ("Runs", "/runs"),
    ("Compare", "/compare"),
    ("Questions", "/questions"),
    ("Recall explorer", "/explore"),
    ("Labels", "/labels"),
    ("Live", "/live"),
)
"""Title and path."""


def is_below(path: str, page: str) -> bool:
    """Return whether a page is the one a link leads to, or belongs to it: one question to all of them."""
    return path == page or path.startswith(f"{page}/") or (path, page) == ("/question", "/questions")
