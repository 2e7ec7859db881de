"""The days that an English text names, by rules: offline, deterministic, independent of locale and time zone.

`mentions` reads messages at ingestion, `narrative` the days of a story told in a message, and `questions` the
questions. All find `phrases` by `rules`. The words of the rules are in `vocabulary`, their meanings, as days of
`calendar_days`, in `meanings`; `modifiers` before a phrase narrow or move it.
"""
