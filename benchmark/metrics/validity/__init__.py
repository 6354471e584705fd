"""Metrics of the track validity: will the kernel compile, run and give correct results?"""
