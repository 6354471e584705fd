"""The published gpu-forecasters release: its five datasets."""
