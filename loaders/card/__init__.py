"""The dataset card, its plots, and the metadata beside it, all generated from the data."""
