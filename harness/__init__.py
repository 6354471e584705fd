"""Build, verify, time, judge, isolate and record kernels on local CUDA hardware."""
