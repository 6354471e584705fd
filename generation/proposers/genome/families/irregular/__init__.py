"""Kernels whose memory accesses depend on the data: gather, scatter, sort, routing."""
