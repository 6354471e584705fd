"""Seasons: forecasts about kernels that nobody has measured yet, frozen before they are."""
