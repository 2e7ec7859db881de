"""Check a memory system in seconds, on two small made-up histories."""
