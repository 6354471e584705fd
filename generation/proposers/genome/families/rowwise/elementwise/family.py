"""Activations, gated units and rotary embeddings: one pass over memory, walked in several ways."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.elementwise import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
