"""Kernels written by language models: live through a chat endpoint, or through files of requests and responses."""
