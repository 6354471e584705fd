"""Formats of other suites, one module per format."""
