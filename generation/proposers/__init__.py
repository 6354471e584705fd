"""Who writes the next kernel: genome families, source rewriting, or a language model."""
