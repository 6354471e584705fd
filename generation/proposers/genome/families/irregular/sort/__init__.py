"""Sorted rows: in registers or shared memory, by rank, radix, merging, or passes over memory."""
