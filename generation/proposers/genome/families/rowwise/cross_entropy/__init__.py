"""Cross entropy with its gradient."""
