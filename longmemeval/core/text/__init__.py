"""Words, plurals and the names of days and months."""
