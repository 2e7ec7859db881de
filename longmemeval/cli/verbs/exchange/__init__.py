"""Verbs to exchange and extend: export, import, merge, board, memory, plugins."""
