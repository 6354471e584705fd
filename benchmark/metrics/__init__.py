"""Metrics: plain functions of arrays, and one frozen `Metric` for each figure; `registry.py` lists them all."""
