"""Made-up lives whose truth is known by construction, for the questions of `probe`."""
