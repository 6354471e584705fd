"""What guides a search besides its measurements: forecasts, guesses, novelty."""
