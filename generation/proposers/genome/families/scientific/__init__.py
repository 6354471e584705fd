"""Kernels of scientific computing: solvers, Fourier transforms, clustering, n-body."""
