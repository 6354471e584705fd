"""Many searches at once: what to run, and running it."""
