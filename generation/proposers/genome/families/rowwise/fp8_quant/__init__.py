"""Per-group float8 quantisation; Triton rounds bits by hand, so any GPU runs it."""
