"""The append-only log of a run folder."""
