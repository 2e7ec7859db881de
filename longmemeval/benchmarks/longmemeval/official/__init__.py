"""The official protocol of retrieval and its figures, bit for bit."""
