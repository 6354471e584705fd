"""The backward pass of layer norm: a row pass for x, a column sum for weight and bias."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.layernorm_backward import cuda, triton

FAMILIES = (*triton.FAMILIES, *cuda.FAMILIES)
