"""One judge per benchmark."""
