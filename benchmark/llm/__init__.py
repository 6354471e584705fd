"""Language models: the one chat client, live or through Batch files."""
