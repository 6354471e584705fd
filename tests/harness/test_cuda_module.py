"""CudaModule: one load on each device, whose functions share their variables."""

from __future__ import annotations

import pytest

from kbench.harness.cuda import CudaModule

SHARED = r"""
__device__ float kept;
extern "C" __global__ void put(float value) { kept = value; }
extern "C" __global__ void get(float* y) { *y = kept; }
"""


class Code:
    """Stands for machine code loaded on a device."""

    def __init__(self, device: int) -> None:
        self.device = device

    def get_kernel(self, name: str) -> tuple[Code, str]:
        return self, name


def test_all_functions_of_a_module_come_from_one_load_on_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    module, loads = CudaModule(SHARED), list[int]()

    def load(device: int) -> Code:
        loads.append(device)
        return Code(device)

    monkeypatch.setattr(module, "_load", load)
    found = {(device, name): module._kernel(device, name) for device in (0, 1) for name in ("put", "get", "put")}
    assert loads == [0, 1]
    assert {key: (code.device, name) for key, (code, name) in found.items()} == {key: key for key in found}  # type: ignore[misc,has-type]


@pytest.mark.gpu
def test_what_one_function_writes_into_a_variable_another_reads() -> None:
    import torch

    module, y = CudaModule(SHARED), torch.zeros(1, device="cuda")
    module.launch("put", grid=1, block=1, args=(2.5,))
    module.launch("get", grid=1, block=1, args=(y,))
    assert float(y) == 2.5
