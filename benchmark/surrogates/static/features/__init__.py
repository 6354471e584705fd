"""What a kernel, its launches, its problem and a compiler say, as columns of numbers."""
