"""Convolutions, plain, transposed, grouped and depthwise."""
