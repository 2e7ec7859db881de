"""The pages: a module each, with its `routes` and the grammar of its addresses."""
