"""Search methods: pure functions from what is known to what to propose next."""
