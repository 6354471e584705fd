"""Rows added into indexed places: atomics, or lists of items per row."""
