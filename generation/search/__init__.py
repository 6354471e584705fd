"""A search: settings, log-derived state, what to do next, and the driver that does it."""
