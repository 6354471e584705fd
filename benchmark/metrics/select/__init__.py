"""Metrics of the track select: does it know when it does not know?"""
