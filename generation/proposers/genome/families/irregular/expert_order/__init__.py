"""Tokens brought into expert order: count, scan, place, move."""
