"""Extract claims from episodes: by rules, whose patterns are data (`patterns.toml`), or by a chat model."""
