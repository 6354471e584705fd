"""What a corpus holds: counts, coverage, trust, repeats, costs."""
