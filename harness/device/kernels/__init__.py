"""The harness's own CUDA kernels: holding a stream, overwriting, comparing and summing memory."""
