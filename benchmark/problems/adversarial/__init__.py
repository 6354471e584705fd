"""Inputs that find kernels which are right only on drawn ones."""
