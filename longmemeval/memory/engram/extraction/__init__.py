"""Claims read out of episodes by rules, whose patterns are data (`patterns.toml`)."""
