"""Metrics of the track forecast: how good is the distribution?"""
