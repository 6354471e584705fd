"""Partition: part of a GPU's multiprocessors, for everything that a process runs, by a green context.

L2 and memory stay whole, so the ratio of compute to bandwidth changes. No setting of the GPU is touched.
"""

from __future__ import annotations

from typing import Any

from kbench.harness.device.driver import DriverError, Launch, LaunchShape, Parameters, call
from kbench.harness.device.kernels.own_kernels import OwnKernels, as_word
from kbench.schemas import InfrastructureError

MOST_IDS = 4096
"""More than the number of any multiprocessor."""
SOURCE = r"""
extern "C" __global__ void look(unsigned char* seen) {
    unsigned int id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    // Long enough that no multiprocessor gets a second block before all have had one.
    for (long long start = clock64(); clock64() - start < 20000;) {}
    seen[id] = 1;
}
"""


class Partition:
    """Makes a green context current, so that all that this thread queues from then on runs in it."""

    def __init__(self, index: int, count: int, properties: Any) -> None:
        """Enter a partition.

        Args:
            index: the GPU, which torch has used before.
            count: multiprocessors.
            properties: the GPU's, as torch reports them.

        Raises:
            InfrastructureError: the driver cannot make it, or work runs on other multiprocessors.
        """
        try:
            self._enter(index, count)
            self._prepare(count, properties)
            self.sm_ids = self.look()
        except (DriverError, RuntimeError, AttributeError, ImportError) as error:
            # The bindings may be missing or too old, and raise RuntimeError for a function that the driver lacks.
            raise InfrastructureError(
                f"GPU {index} gives no partition of {count} SMs ({error}); it takes driver 550 or later,"
                " and without a count the whole GPU is measured"
            ) from error
        if len(self.sm_ids) != count:
            raise InfrastructureError(f"work runs on {len(self.sm_ids)} SMs of GPU {index}, not on {count}")

    def _enter(self, index: int, count: int) -> None:
        from cuda.bindings import driver

        device = call("cuDeviceGet", index)
        whole = call("cuDeviceGetDevResource", device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM)
        groups, _, _ = call("cuDevSmResourceSplitByCount", 1, whole, 0, count)
        described = call("cuDevResourceGenerateDesc", groups, 1)
        # Torch queues on the default stream, which a green context has only when asked.
        flag = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM.value
        self._green = call("cuGreenCtxCreate", described, device, flag)
        call("cuCtxSetCurrent", call("cuCtxFromGreenCtx", self._green))

    def _prepare(self, count: int, properties: Any) -> None:
        import torch

        function = OwnKernels(SOURCE, properties).function("look")
        self._seen = torch.zeros(MOST_IDS, dtype=torch.uint8, device="cuda")
        # So much shared memory that a multiprocessor holds one block at a time.
        shape = LaunchShape((2 * count, 1, 1), (32, 1, 1), int(properties.shared_memory_per_block_optin))
        where = as_word(self._seen.data_ptr())
        self._launch = Launch(function, shape, Parameters(function, [where]), torch.cuda.current_stream().cuda_stream)

    def look(self) -> tuple[int, ...]:
        """The ids (%smid) of the multiprocessors that work runs on now."""
        self._seen.zero_()
        self._launch.queue()
        return tuple(self._seen.nonzero().flatten().tolist())


def multiprocessors(index: int) -> int:
    """How many multiprocessors a GPU has, without making a context on it.

    Raises:
        InfrastructureError: the driver does not say.
    """
    try:
        from cuda.bindings import driver

        call("cuInit", 0)
        asked = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        return int(call("cuDeviceGetAttribute", asked, call("cuDeviceGet", index)))
    except (ImportError, DriverError, RuntimeError) as error:
        raise InfrastructureError(f"GPU {index} cannot be asked for its multiprocessors: {error}") from error
