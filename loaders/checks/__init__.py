"""Checks of a corpus: columns, references between rows, figures, splits, the folder."""
