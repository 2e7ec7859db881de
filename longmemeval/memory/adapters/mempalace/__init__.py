"""MemPalace, over MCP."""
