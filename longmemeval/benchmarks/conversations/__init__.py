"""Conversations of your own: exports of chat programs as a data set, with questions you write."""
