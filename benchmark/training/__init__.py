"""Rows to train models on, one module per format; `kbench data export` writes them."""
