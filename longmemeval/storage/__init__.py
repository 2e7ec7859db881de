"""Prepared haystacks on disk: messages, working memory, vectors; each part complete and hashed."""
