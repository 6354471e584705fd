"""Forecast the speedup of GPU kernels, as a verifiers environment."""

from kbench_forecast.taskset import ForecastTaskset

__all__ = ["ForecastTaskset"]
