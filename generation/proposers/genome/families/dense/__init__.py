"""Matrix products, plain, fused and quantised."""
