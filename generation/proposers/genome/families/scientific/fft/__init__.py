"""Fourier transforms: in registers, in shared memory, or passes over device memory."""
