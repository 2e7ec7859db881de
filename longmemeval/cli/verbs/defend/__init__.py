"""Verbs to defend a number: verify, sign, judge, recipe."""
