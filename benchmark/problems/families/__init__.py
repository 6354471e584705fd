"""The benchmark's problems, by family of operations."""
