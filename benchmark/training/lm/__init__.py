"""Training of local language models as forecasters: supervised, or by reinforcement with calibration rewards."""
