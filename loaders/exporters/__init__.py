"""Our rows in other people's formats, one module per format."""
