"""Assertions on memories for a test suite: what is recalled, and that a run has not become worse."""

from longmemeval.testing.assertions import assert_no_regression, assert_recall

__all__ = ["assert_no_regression", "assert_recall"]
