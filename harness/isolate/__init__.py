"""Isolate: kernels run in worker processes that can be killed without losing anything else."""
