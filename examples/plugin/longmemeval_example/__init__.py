"""Plug-ins for longmemeval, each in one file."""
