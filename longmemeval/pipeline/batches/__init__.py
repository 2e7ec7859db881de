"""Model calls by batch: gathered while work waits for them, sent together, fetched when done."""
