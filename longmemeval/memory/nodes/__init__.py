"""Typed nodes: memory types defined as data, one YAML file each, and the entries extracted with them.

A node defines what its entries look like (fields, types, choices), how a chat model is asked for them, how rules find
them without a model, and which text of an entry is embedded. `docs/typed-nodes.md` shows how to add one.
"""
