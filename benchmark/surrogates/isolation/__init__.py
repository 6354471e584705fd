"""A foreign surrogate in its own process, and the runner that asks surrogates."""
