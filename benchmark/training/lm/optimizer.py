"""AdamW on float32 copies of weights that are kept in bfloat16, where a small step would round away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

LARGEST_NORM = 1.0
"""Longer gradients are shortened to this length."""


class MasterAdam:
    """The optimizer of one network."""

    def __init__(self, network: Any) -> None:
        import torch

        self._weights = [weight for weight in network.parameters() if weight.requires_grad]
        self.masters = [
            weight if weight.dtype == torch.float32 else weight.detach().float().requires_grad_()
            for weight in self._weights
        ]
        self._adam = torch.optim.AdamW(self.masters, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0, foreach=True)

    def step(self, rate: float) -> float:
        """Follow the gradients that were gathered; returns their length."""
        import torch

        for weight, master in self._pairs():
            if weight.grad is not None:
                master.grad, weight.grad = weight.grad.float(), None
        norm = torch.nn.utils.clip_grad_norm_(self.masters, LARGEST_NORM)
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)
        self._copy_back()
        return float(norm)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps: weights and moments."""
        return {"masters": [master.detach() for master in self.masters], "adam": self._adam.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        """Take up a checkpoint."""
        import torch

        with torch.no_grad():
            for master, kept in zip(self.masters, state["masters"], strict=True):
                master.copy_(kept)
        self._adam.load_state_dict(state["adam"])
        self._copy_back()

    def _pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        pairs = zip(self._weights, self.masters, strict=True)
        return [(weight, master) for weight, master in pairs if weight is not master]

    def _copy_back(self) -> None:
        import torch

        with torch.no_grad():
            for weight, master in self._pairs():
                weight.copy_(master)
