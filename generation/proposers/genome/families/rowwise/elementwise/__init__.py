"""Activations, gated units and rotary embeddings: one pass over memory, walked in several ways."""
