"""Hindsight: facts, people and times in PostgreSQL."""
