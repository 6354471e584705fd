"""Evolutionary search that builds the corpus: event log, reducer, methods, proposers, executors, assembly."""
