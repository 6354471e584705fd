"""Losses: a sum over everything, or one value per row, joined into one number."""
