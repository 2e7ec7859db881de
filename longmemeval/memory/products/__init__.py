"""Other people's memory systems, each in a folder of its own and in an environment of its own."""
