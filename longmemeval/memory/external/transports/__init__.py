"""What carries messages to a memory service."""
