"""Reductions of the middle dimension of a (batch, length, width) tensor, and RMS norm over channels."""
