"""The days that an English text names, by rules: offline, deterministic, independent of locale and time zone.

`mentions` reads messages at ingestion, `narrative` the days of a story told in one of them, `questions` reads
questions. All find `phrases` by `rules`, whose words are the
`vocabulary`, whose `meanings` are `calendar_days`, and which `modifiers` before them narrow or move.
"""
