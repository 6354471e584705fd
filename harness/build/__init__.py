"""Build: source text to machine code, off the GPU, with what the compiler says about it."""
