"""A paged int8 cache, collected and dequantised."""
