"""Forces between all bodies."""
