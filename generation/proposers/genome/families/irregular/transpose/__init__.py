"""Transposes of matrices, alone or in batches."""
