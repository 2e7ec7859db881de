"""Calls over HTTP: the client, its connections and endpoints, retries, and the circuit breaker."""
