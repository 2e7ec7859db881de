"""Secrets found by value and kept out of files, errors and the screen."""
