"""Extract claims from episodes: by rules, whose patterns are data (`*.toml`), or by a chat model."""
