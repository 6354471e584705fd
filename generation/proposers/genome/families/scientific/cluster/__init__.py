"""The nearest centroid of every point."""
