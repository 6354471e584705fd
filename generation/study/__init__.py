"""The replay study: every method on recorded measurements, without a GPU."""
