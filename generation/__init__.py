"""Evolutionary search that builds the corpus: proposers, methods, event log, executors."""
