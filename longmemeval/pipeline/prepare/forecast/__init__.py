"""Estimates of preparing: calls, time, disk."""
