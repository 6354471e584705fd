"""Kernel families by group: a folder per operation, with `family.py` and the kernel text in `templates`."""
