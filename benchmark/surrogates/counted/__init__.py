"""`static-compiler`: counted work as a time on a GPU, corrected by trees, with widths of held-out problems."""
