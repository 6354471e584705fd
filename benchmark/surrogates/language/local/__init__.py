"""`lm`: a language model whose weights are here, asked through transformers for nine digits."""
