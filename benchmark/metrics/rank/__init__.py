"""Metrics of the track rank: does it order a pool?"""
