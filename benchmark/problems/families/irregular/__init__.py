"""Data-dependent access and scientific computing."""
