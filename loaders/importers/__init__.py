"""Measured kernels in other people's formats, one module per format; nothing is guessed."""
