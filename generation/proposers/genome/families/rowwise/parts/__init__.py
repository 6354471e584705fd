"""What several row-wise families share."""
