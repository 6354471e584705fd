"""Sparse matrix times vector: rows, blocks of rows, or entries with segmented sums."""
