"""Made-up lives with truth by construction: what `probe` asks memories about."""
