"""`run`: from fixtures to answers."""
