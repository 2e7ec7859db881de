"""Options that verbs share: groups, panels of `--help`, completion."""
