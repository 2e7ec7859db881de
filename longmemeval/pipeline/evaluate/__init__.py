"""`evaluate`: from answers to judgements and scores."""
