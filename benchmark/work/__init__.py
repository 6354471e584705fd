"""What a kernel does, counted without a GPU: PTX read, executed abstractly, and summed over a launch."""
