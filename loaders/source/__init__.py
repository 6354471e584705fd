"""Kernel sources: one lexer for CUDA C++ and one for Python, comment stripping, structure ids."""
