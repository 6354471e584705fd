"""Assembly: run logs become a corpus."""
