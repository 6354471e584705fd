"""Matrix products and what is fused to them."""
