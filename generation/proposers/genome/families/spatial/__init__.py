"""Kernels over image planes: convolutions, pooling windows, stencils."""
