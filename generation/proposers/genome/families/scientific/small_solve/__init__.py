"""Many small positive definite systems: a tile or a lane per row, or a thread per system."""
