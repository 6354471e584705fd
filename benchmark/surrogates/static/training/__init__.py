"""Training `static`, cross-fitted over problems."""
