"""Reads what `run` would launch, from its text alone."""
