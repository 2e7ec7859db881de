"""LangMem over LangGraph's SQLite store, and that store alone."""
