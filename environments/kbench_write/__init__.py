"""Write GPU kernels, as a verifiers environment. `kbench_write.scoring` works without verifiers."""

from typing import Any

__all__ = ["WriteTaskset"]


def __getattr__(name: str) -> Any:
    if name == "WriteTaskset":
        from kbench_write.taskset import WriteTaskset

        return WriteTaskset
    raise AttributeError(f"module 'kbench_write' has no attribute {name!r}")
