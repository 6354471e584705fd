"""Many tridiagonal systems: elimination, parallel reduction, and both in turn."""
