"""The pages that every page links to, in the order of the links."""

NAVIGATION: tuple[tuple[str, str], ...] = (
    ("Runs", "/runs"),
    ("Compare", "/compare"),
    ("Questions", "/questions"),
    ("Recall explorer", "/explore"),
    ("Labels", "/labels"),
    ("Live", "/live"),
)
"""Title and path of each page."""


def is_below(path: str, page: str) -> bool:
    """Return True if `path` is the page of a link or belongs to it, as a single question belongs to all questions."""
    return path == page or path.startswith(f"{page}/") or (path, page) == ("/question", "/questions")
