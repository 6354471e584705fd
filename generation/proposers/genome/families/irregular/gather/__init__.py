"""Embedding lookups."""
