"""Attention, recurrences and other operations over token sequences."""
