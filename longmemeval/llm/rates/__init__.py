"""How many requests and tokens a minute a provider takes: limits, and turns under them for all calls by one key."""
