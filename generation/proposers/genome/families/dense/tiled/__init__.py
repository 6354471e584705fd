"""Tiled products: matmul, linear layers with their epilogues, grouped and quantised products."""
