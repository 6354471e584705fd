"""A matrix scaled by one number, or by one number per row: pure memory traffic."""
