"""The Hugging Face Hub: pull, import and push corpora."""
