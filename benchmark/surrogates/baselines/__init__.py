"""Surrogates that show what little knowledge scores, and `replay`."""
