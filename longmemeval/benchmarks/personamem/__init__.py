"""PersonaMem (Jiang et al. 2025): which of four replies fits what the user said of themselves."""
