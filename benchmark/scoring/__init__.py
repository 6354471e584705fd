"""Scoring: forecasts against answers, one file a track, with intervals, ceiling and slices."""
