"""Search for kernels and build corpora: event log, reducer, methods, proposers, executors, assembly."""
