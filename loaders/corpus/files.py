"""Names of what lies in a corpus folder beside its manifest and Parquet files."""

CARD = "README.md"
CROISSANT = "croissant.json"
LEDGER = "ledger.json"
EVAL = "eval.yaml"
PLOTS = "plots"
PULLED = "pull.json"
"""Where a pulled corpus came from; the others are generated from the data."""
