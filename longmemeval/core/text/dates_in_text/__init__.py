"""The days that an English text names, by rules: offline, deterministic, independent of locale and time zone.

`mentions` reads messages at ingestion, `questions` reads questions. Both find `phrases` by `rules`, whose words are the
`vocabulary`, whose `meanings` are `calendar_days`, and which `modifiers` before them narrow or move.
"""
