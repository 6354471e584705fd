"""Files: atomic writes, append-only lines, foreign Parquet read in isolation."""
