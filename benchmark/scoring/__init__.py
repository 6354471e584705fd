"""Scores of a surrogate: figures of every track and slice, ceilings, and paired comparisons."""
