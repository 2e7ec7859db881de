"""Other people's memory systems, each in its own folder and its own environment."""
