"""Calls over HTTP: the client, its connections and endpoints, retries, and when an endpoint counts as dead."""
