"""Convolutions, pooling and stencils."""
