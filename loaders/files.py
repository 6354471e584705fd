"""Names of what lies in a corpus folder beside its manifest and Parquet files; all of it is generated from the data."""

CARD = "README.md"
CROISSANT = "croissant.json"
LEDGER = "ledger.json"
EVAL = "eval.yaml"
PLOTS = "plots"
