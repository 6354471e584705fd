"""Attention of one new token to a dense, grouped or paged cache."""
