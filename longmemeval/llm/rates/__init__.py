"""Rate limits of providers in requests and tokens per minute, and turns for all calls with one key."""
