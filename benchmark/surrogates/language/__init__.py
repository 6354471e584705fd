"""`llm`: a language model asked for a distribution over bins."""
