"""`static`: trees over what source, launches, problem and GPU say. Needs no GPU."""
