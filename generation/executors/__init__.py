"""Executors: where candidates are measured: a local GPU, a Ray cluster, or recorded measurements."""
