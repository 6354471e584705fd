"""Genome families: parametrised kernels for Triton and CUDA."""
