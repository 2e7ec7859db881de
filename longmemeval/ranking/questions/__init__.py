"""What is looked for in a question: its parts, and the time it is about."""
