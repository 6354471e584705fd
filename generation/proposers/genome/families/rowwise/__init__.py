"""Kernels that walk rows or columns: elementwise, norms, reductions, scans, losses."""
