"""Counts of bin numbers: private or shared copies, warp votes, global atomics."""
