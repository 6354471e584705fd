"""Norms of contiguous rows: softmax, log-softmax, L2, RMS with residual, instance and group norm."""
