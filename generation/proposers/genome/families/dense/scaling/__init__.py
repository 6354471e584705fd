"""A diagonal matrix times a matrix, and a matrix times a scalar."""
