"""What stays while the dataset grows: the kernels benchmark 2 asks about, and the core of its queries."""
