"""CudaModule: what it launches with, and one load on each device, whose functions share their variables."""

import ctypes

import pytest
import torch

from kbench.harness.cuda import Compiled, CudaModule, LaunchRequest, TensorMap, scalar_bytes
from kbench.harness.device import driver

SHARED = r"""
__device__ float kept;
extern "C" __global__ void put(float value) { kept = value; }
extern "C" __global__ void get(float* y) { *y = kept; }
"""


class Functions:
    """Stands for the driver: what was loaded, and on which device."""

    def __init__(self) -> None:
        self.device, self.loads = 0, list[int]()

    def call(self, name: str, cubin: bytes) -> int:
        assert name == "cuModuleLoadData"
        self.loads.append(self.device)
        return self.device


def test_all_functions_of_a_module_come_from_one_load_on_each_device(monkeypatch: pytest.MonkeyPatch) -> None:
    module, loaded = CudaModule(SHARED), Functions()
    monkeypatch.setattr(driver, "call", loaded.call)
    monkeypatch.setattr(driver, "Function", lambda handle, name: (handle, name))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(module, "compiled", lambda arch: Compiled(arch.encode(), {"get": "_Z3getPf"}))
    found = {}
    for device in (0, 1):
        loaded.device = device
        found |= {(device, name): module._function(device, name) for name in ("put", "get", "put")}
    assert loaded.loads == [0, 1]
    assert found == {(device, name): (device, {"get": "_Z3getPf"}.get(name, name)) for device, name in found}


def test_a_launch_request_has_three_extents_and_is_recorded_in_place_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[LaunchRequest] = []
    monkeypatch.setattr(CudaModule, "recorder", lambda module, request: seen.append(request))
    module = CudaModule(SHARED)
    module.launch("put", grid=7, block=(32, 2), args=[2.5], shared_bytes=64, cluster=2, cooperative=True)
    module.launch("put", grid=(1, 2, 3), block=1, args=())
    assert seen == [
        LaunchRequest("put", (7, 1, 1), (32, 2, 1), (2.5,), 64, (2, 1, 1), cooperative=True),
        LaunchRequest("put", (1, 2, 3), (1, 1, 1), (), 0, None, cooperative=False),
    ]
    with pytest.raises(ValueError, match="one to three dimensions"):
        module.launch("put", grid=(1, 2, 3, 4), block=1, args=())


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (True, "01"),
        (7, "0700000000000000"),
        (-1, "ffffffffffffffff"),
        (2**64 - 1, "ffffffffffffffff"),
        (1.5, "0000c03f"),
        (ctypes.c_double(1.5), "000000000000f83f"),
        (ctypes.c_short(-2), "feff"),
    ],
)
def test_a_number_has_the_bytes_a_parameter_reads(value: object, data: str) -> None:
    assert scalar_bytes(value).hex() == data


def test_a_tensor_map_has_its_parameters_innermost_first() -> None:
    tensor = torch.empty(6, 64, 32, dtype=torch.bfloat16, device="meta")
    spec = TensorMap(tensor, (1, 16, 32), swizzle=64, nan_fill=True).spec()
    assert (spec.extents, spec.strides, spec.box) == ((32, 64, 6), (64, 4096), (32, 16, 1))
    assert (spec.element_type, spec.swizzle, spec.nan_fill) == (9, 2, True)
    with pytest.raises(ValueError, match="swizzle is 48"):
        TensorMap(tensor, (1, 16, 32), swizzle=48)
    for odd, box in ((tensor, (16, 32)), (tensor.transpose(1, 2), (1, 16, 32))):
        with pytest.raises(ValueError, match="last dimension stride 1"):
            TensorMap(odd, box)


@pytest.mark.gpu
def test_what_one_function_writes_into_a_variable_another_reads() -> None:
    module, y = CudaModule(SHARED), torch.zeros(1, device="cuda")
    module.launch("put", grid=1, block=1, args=(2.5,))
    module.launch("get", grid=1, block=1, args=(y,))
    assert float(y) == 2.5
