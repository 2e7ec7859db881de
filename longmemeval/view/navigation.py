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
