"""Evaluation of a surrogate: run it, keep its files, show what came out."""
