"""Memory servers that speak MCP, each described by a mapping file."""
