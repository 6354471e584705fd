"""Benchmark 2: pairs drawn when they are asked for, of a release without questions. Goes with its last figures."""
