"""Conversations of your own: exports of chat programs as a dataset, with questions you write."""
