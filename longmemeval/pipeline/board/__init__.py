"""`board`: verified runs of many people, ranked no finer than the noise allows."""
