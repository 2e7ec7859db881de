"""Rate limits of providers in requests and tokens per minute, and turns under them for all calls with one key."""
