"""Surrogates made of surrogates: `calibrated:NAME` and `stack:A+B`, learned on validation problems."""
