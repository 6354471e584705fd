"""Elementwise, row-wise and scanning operations."""
