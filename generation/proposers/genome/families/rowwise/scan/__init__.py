"""Running sums and products along rows, and one long prefix sum."""
