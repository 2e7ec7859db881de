"""Transports carry messages to a memory service."""
