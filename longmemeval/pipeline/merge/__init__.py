"""`merge`: the runs of all shards become one run."""
