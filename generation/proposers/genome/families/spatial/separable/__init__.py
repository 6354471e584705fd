"""Depthwise-separable convolutions."""
