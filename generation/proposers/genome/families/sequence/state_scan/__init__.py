"""The selective scan: step by step, associative or closed form, over states or over time."""
