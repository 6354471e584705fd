"""The probe: what a set of queries gives away by itself, before any source is read."""
