"""A matrix times a vector: who sums a row, and how its parts are joined."""
