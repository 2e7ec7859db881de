"""`inspect`: one question or haystack, and what memories recall."""
