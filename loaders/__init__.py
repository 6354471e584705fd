"""Open, filter, split, write, describe and export corpora."""
