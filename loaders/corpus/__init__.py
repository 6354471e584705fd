"""Corpora: open, select, write, manifest."""
