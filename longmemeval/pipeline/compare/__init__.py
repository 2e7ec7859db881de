"""`compare`: graded runs side by side."""
