"""Extract entries from what is said: by rules, or by a chat model."""
