"""Metrics of the track search: does search find more at an equal GPU budget?"""
