"""Transports, which carry messages to a memory service."""
