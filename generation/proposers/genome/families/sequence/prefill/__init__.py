"""Attention over a whole prompt: one pass, two passes, or stored scores."""
