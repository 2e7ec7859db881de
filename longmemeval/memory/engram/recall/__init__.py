"""What is recalled of the engine's facts."""
