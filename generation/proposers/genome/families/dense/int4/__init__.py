"""Products with packed 4-bit weights: tensor cores or plain lanes, and where nibbles become numbers."""
