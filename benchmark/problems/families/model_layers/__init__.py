"""Layers of named models in 16 and 8 bits; every workload says whose shape it has."""
