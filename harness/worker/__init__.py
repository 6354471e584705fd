"""Worker: what runs inside worker processes, from a kernel to plain results."""
