"""Worker: what runs inside worker processes, from a kernel at hand to plain results."""
