"""The record types, one per module."""
