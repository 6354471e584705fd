"""Splits: which kernels are held out. By problem, and by lineage, as the benchmark asks."""
