"""Gpu: which GPU to measure on, or which part of one."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any

from kbench.harness.device.driver import DriverError, Launch, LaunchShape, Parameters, call
from kbench.harness.device.kernels.own_kernels import OwnKernels, as_word, cuda_source
from kbench.schemas import InfrastructureError, UserError
from kbench.schemas.gpus import partition_name

STEP = 8
"""Partitions come in multiples of this many multiprocessors, which every architecture accepts."""
RULE = (
    f"a partition has a multiple of {STEP} SMs, at least {STEP} and at most the GPU's number rounded down to one;"
    " leave the count out for the whole GPU"
)
FORM = re.compile(r"(?:(\d+)|((?:MIG|GPU)-[^:,\s]+))(?::(\d+))?")


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU, or as many of its multiprocessors as are named."""

    index: int = 0
    """As CUDA numbers GPUs; 0 with a uuid, which is then the only one CUDA sees."""
    sms: int | None = None
    """Multiprocessors of the partition; None for the whole GPU."""
    uuid: str | None = None
    """Of a GPU or a MIG instance that is named by its uuid."""

    @classmethod
    def parse(cls, text: str) -> Gpu:
        """A GPU from text such as 0, 0:64 or MIG-….

        Raises:
            UserError: the text has another form, or no partition can have so many multiprocessors.
        """
        parts = FORM.fullmatch(text.strip())
        if parts is None:
            raise UserError(f"--gpu is {text!r}; give an index such as 0, a partition such as 0:64, or MIG-…")
        index, uuid, sms = parts.groups()
        if sms is not None and (int(sms) < STEP or int(sms) % STEP):
            raise UserError(f"--gpu is {text!r}, but {RULE}")
        return cls(int(index or 0), None if sms is None else int(sms), uuid)

    @classmethod
    def of(cls, value: int | str | Gpu) -> Gpu:
        """A GPU from its index or its text."""
        return value if isinstance(value, Gpu) else cls.parse(str(value))

    def __str__(self) -> str:
        return (self.uuid or str(self.index)) + ("" if self.sms is None else f":{self.sms}")

    def named(self, model: str, sm_count: int) -> str:
        """Its name in records, given the whole GPU's name and number of multiprocessors."""
        return model if self.sms is None else partition_name(model, self.sms, sm_count)

    def check_size(self, sm_count: int) -> None:
        """Check that a GPU with this many multiprocessors has such a partition.

        Raises:
            UserError: it is too small.
        """
        if self.sms is not None and self.sms > sm_count // STEP * STEP:
            raise UserError(f"--gpu is {str(self)!r} and the GPU has {sm_count} SMs, but {RULE}")

    def visible_index(self) -> int:
        """Its index, after making it visible to CUDA where a uuid names it; call before this process uses CUDA."""
        if self.uuid is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = self.uuid
        return self.index


FIRST_GPU = Gpu()
"""The GPU that is used unless another is named."""


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """GPUs from a list such as 0,1.

    Raises:
        UserError: one has the wrong form, or two are parts of the same GPU, which would disturb each other.
    """
    gpus = tuple(Gpu.parse(part) for part in text.split(","))
    if len({(gpu.index, gpu.uuid) for gpu in gpus}) != len(gpus):
        raise UserError(f"--gpu is {text!r}; give different GPUs, since work on one part disturbs the other")
    return gpus


def usable_bytes(limit_bytes: int | None) -> int:
    """Memory of torch's current GPU that may be used: the limit, or all there is."""
    import torch

    return limit_bytes or int(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)


MOST_IDS = 4096
"""More than the number of any multiprocessor."""
LOOK_SOURCE = cuda_source("look")


class Partition:
    """Part of a GPU's multiprocessors, for everything that a process runs, by a green context.

    L2 and memory stay whole, so the ratio of compute to bandwidth changes. No setting of the GPU is touched.
    The context is made current, so that all that this thread queues from then on runs in it.
    """

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

        function = OwnKernels(LOOK_SOURCE, properties).function("look")
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
