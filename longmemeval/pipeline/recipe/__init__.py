"""Recipes: one YAML that makes a run again, and what differs where it is made again."""
