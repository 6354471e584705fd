"""Products with packed four-bit weights."""
