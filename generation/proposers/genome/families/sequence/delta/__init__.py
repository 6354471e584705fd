"""The gated delta network: chunk states, outputs, and w and u."""
