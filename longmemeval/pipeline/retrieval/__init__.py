"""`retrieval`: from fixtures to rankings and their measures."""
