"""`online`: learns from the measurements of the search it sits in."""
