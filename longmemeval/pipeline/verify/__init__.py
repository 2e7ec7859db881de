"""`verify`: hashes hold and every figure recomputes."""
