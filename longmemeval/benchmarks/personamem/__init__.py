"""PersonaMem (Jiang et al. 2025): which of four replies suits what users have said about themselves."""
