"""Check submissions, score them, rank them, and build the page that shows them."""
