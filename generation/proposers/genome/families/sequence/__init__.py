"""Kernels over token sequences: attention, state-space scans, caches."""
