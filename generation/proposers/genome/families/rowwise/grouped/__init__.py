"""Norms by statistics of many rows at once: batch, group, instance and Frobenius norm."""
