"""Forecasts as columns, the files they are kept in, and the numbers they may hold."""
