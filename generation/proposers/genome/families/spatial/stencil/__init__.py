"""Stencils over grids."""
