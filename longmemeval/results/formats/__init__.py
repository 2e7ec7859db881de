"""`import` and `export`: the formats of others."""
