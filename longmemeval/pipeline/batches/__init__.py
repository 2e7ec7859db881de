"""Model calls by batch: gathered while work waits for them, sent together, fetched whenever they are there."""
