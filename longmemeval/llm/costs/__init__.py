"""Costs of calls, and receipts of paid ones."""
