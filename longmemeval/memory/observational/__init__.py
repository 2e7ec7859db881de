"""Observational memory: a dated log of observations that a chat model keeps, and condenses when it grows long.

The mechanism is Mastra's (observational memory, 2026), from published facts; prompts and code are our own.
`docs/memories/observational.md` says what differs from the published run.
"""
