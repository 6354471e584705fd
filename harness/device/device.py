"""Device: the few operations timing needs, on a GPU, or on the CPU for dry runs.

Everything above this file is the same for both. A CPU device really executes kernels (plain torch, or Triton's
interpreter) and really measures them, but what it measures is a CPU, so its figures are never stored as GPU data.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbench.harness.device.driver import DriverError, call
from kbench.harness.device.fence import fence_torch
from kbench.harness.device.gpu import Gpu, Partition
from kbench.harness.device.kernels.keyed import ByteSums, Mask, Seal, mask_by_torch, sealed_by_torch
from kbench.harness.device.kernels.same_bytes import Claim, SameBytes, same_bytes
from kbench.harness.device.kernels.scrub import Scrubber
from kbench.harness.device.kernels.stream import Hold, StampClock
from kbench.schemas import InfrastructureError

if TYPE_CHECKING:
    import torch

POISON_BYTE = 0xFF
"""Fills memory that a kernel may receive: NaN in every floating-point type, and -1 in the integers."""
NO_GPU = "no NVIDIA GPU found, so nothing can be timed"
SPIN_PROBE_CYCLES = 2_000_000
FLUSHES, FLUSH_SHARE, FLUSH_LIMIT_SHARE = 8, 0.02, 0.125
"""Buffers that evict the L2 in turn, as far as these shares go, of the GPU's memory and of what may be used: how many
of a buffer's lines are still to be written back when a call begins depends on where it lies, and a single buffer would
fix that for the whole process."""


class Device:
    """A stream of work with marks in it. What a device does not override is what the CPU does."""

    torch_name: str
    model: str
    """The device's name, as its driver reports it; a partition's says how much of the GPU it is."""
    is_gpu: bool
    fenced = False
    """Whether nothing is mapped after a tensor; times mean nothing then."""
    cache_policy: str

    def synchronize(self) -> None:
        """Wait for all work; raises what the work raised."""

    def hold(self, microseconds: float) -> None:
        """Keep the stream busy for a time at most, so that what is queued next is all queued before it starts."""

    def resume(self) -> None:
        """End the latest hold early, where the device can."""

    def flush(self) -> None:
        """Queue an eviction of the L2 cache."""

    def nothing(self) -> None:
        """Queue an empty kernel: one block, one thread, no work."""

    def mark(self) -> Any:
        """Queue a timestamp."""
        raise NotImplementedError

    def passed(self, mark: Any) -> bool:
        """Whether the stream has reached a mark."""
        return False

    def elapsed_us(self, start: Any, end: Any) -> float:
        """Device time between two marks that have passed."""
        raise NotImplementedError

    def stamp(self, *, first: bool = False) -> int | None:
        """Queue a time stamp of the harness's own.

        Args:
            first: of a batch of stamps, which are read together.

        Returns:
            Its place in the batch; None where the device has no such clock.
        """
        return None

    def stamps_us(self) -> Sequence[float] | None:
        """Times of the batch's stamps since its first; None when one was tampered with. Waits for them."""
        return ()

    def poison(self, nbytes: int, blocks: int = 2) -> None:
        """Queue a fill of free memory of this size class, so that a fresh allocation holds no old answer.

        Two blocks: torch's allocator hands out the free block of that size with the lowest address, but a kernel may
        ask for scratch of the same size first.
        """
        import torch

        for block in [torch.empty(nbytes, dtype=torch.uint8, device=self.torch_name) for _ in range(blocks)]:
            block.fill_(POISON_BYTE)

    def same(self, claims: Sequence[Claim]) -> torch.Tensor:
        """Queue checking what memory holds: whether each claim, at least one, is true."""
        return same_bytes(claims)

    def seal(self, tensors: Sequence[torch.Tensor]) -> Seal:
        """Queue summing up the bytes of each tensor, at least one, so that changes are noticed later."""
        return sealed_by_torch(tensors)

    def sums(self, tensors: Sequence[torch.Tensor]) -> list[int]:
        """A sum over the bytes of each tensor; waits for the device once."""
        return self.seal(tensors).sums() if tensors else []

    def mask(self, tensors: Sequence[torch.Tensor], nonces: Sequence[int]) -> None:
        """Queue making contiguous tensors unreadable where they lie, or readable again by the same numbers."""
        mask_by_torch(tensors, nonces)

    def erase(self, tensor: torch.Tensor) -> None:
        """Queue overwriting a tensor's whole storage with poison."""
        import torch

        # A view may show only part of it.
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
        whole.fill_(POISON_BYTE)

    def release(self) -> None:
        """Release cached memory."""


class CudaDevice(Device):
    """One NVIDIA GPU, or a partition of it, through torch's current stream."""

    is_gpu = True
    cache_policy = "flush"

    def __init__(self, gpu: int | Gpu = 0, *, fenced: bool = False, limit_bytes: int | None = None) -> None:
        """Create the context on a GPU, fenced if this process has not touched it before.

        Args:
            gpu: the GPU, or a partition of it.
            fenced: whether nothing is mapped after a tensor.
            limit_bytes: its memory that may be used by all processes together; None for all of it.

        Raises:
            InfrastructureError: there is no such GPU or partition, or its context cannot be made.
        """
        import torch

        # torch leaves parts of its CUDA interface untyped.
        self._torch: Any = torch
        self.fenced = fenced
        chosen = Gpu.of(gpu)
        index = chosen.visible_index()
        try:
            self._fence = fence_torch(index) if fenced else None
            torch.cuda.set_device(index)
            self.properties: Any = torch.cuda.get_device_properties(index)
            torch.zeros(1, device=f"cuda:{index}")
        except (RuntimeError, AssertionError, AttributeError, MemoryError) as error:
            # A torch built without CUDA lacks the functions themselves.
            if not torch.cuda.is_available():
                raise InfrastructureError(NO_GPU) from error
            raise InfrastructureError(f"GPU {chosen} cannot be used: {error}") from error
        total = int(self.properties.multi_processor_count)
        self.torch_name, self.model = f"cuda:{index}", chosen.named(str(self.properties.name), total)
        self.partition: Partition | None = None
        if chosen.sms is not None:
            torch.cuda.synchronize(index)
            self.partition = Partition(index, chosen.sms, self.properties)
        self.sm_count = chosen.sms or total
        """Multiprocessors that work runs on."""
        self.l2_bytes = int(self.properties.L2_cache_size)
        # Twice the L2: a buffer of exactly its size leaves lines behind under the hardware's replacement policy.
        size = max(2 * self.l2_bytes, 32 << 20)
        total_bytes = int(self.properties.total_memory)
        room = min(FLUSH_SHARE * total_bytes, FLUSH_LIMIT_SHARE * (limit_bytes or total_bytes))
        count = min(max(1, int(room) // size), FLUSHES)
        self._evictors = [torch.empty(size // 4, dtype=torch.int32, device=self.torch_name) for _ in range(count)]
        self._evict: Iterator[Callable[[], object]] = itertools.cycle([evictor.zero_ for evictor in self._evictors])
        # Only now: where there is no GPU there may be no such package.
        from cuda.bindings import driver

        # Taken before any kernel is loaded: replacing names later does not reach them.
        base: Any = torch._C._CudaEventBase
        self._record, self._query, self._elapsed = base.record, base.query, base.elapsed_time
        self._record_anywhere, self._handle_of = torch.cuda.Event.record, torch._C._cuda_getCurrentRawStream
        self._memset, self._fine = driver.cuMemsetD8Async, driver.CUresult.CUDA_SUCCESS
        self._index, self._stream = index, torch.cuda.current_stream(index)
        self._handle = int(self._stream.cuda_stream)
        self.stream = self._handle
        """Handle of the stream everything is queued on."""
        self._sync, self._sleep = torch._C._cuda_synchronize, torch._C._cuda_sleep
        self._scrubber: Scrubber | None = None
        self._hold: Hold | None = None
        self._same: SameBytes | None = None
        self._sums: ByteSums | None = None
        self._mask: Mask | None = None
        self._stamps: StampClock | None = None
        self._marks: list[torch.cuda.Event] = []
        self._used = 0
        self._cycles_per_us = self._calibrate_spin()

    def reaches_host_memory(self) -> bool:
        """Whether kernels can read and write whatever this process has in the host's memory.

        So it is where the system serves page faults of the GPU (heterogeneous memory management).
        """
        from cuda.bindings import driver

        access = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
        return bool(call("cuDeviceGetAttribute", access, call("cuCtxGetDevice")))

    @property
    def scrubber(self) -> Scrubber:
        """Overwrites memory, also on the chip; created on first use, because it needs a compiler."""
        if self._scrubber is None:
            self._scrubber = Scrubber(self.properties, self.sm_count, self.stream, POISON_BYTE)
        return self._scrubber

    def compile(self) -> None:
        """Compile the harness's own kernels now, not at their first use; holds and checks are faster with them."""
        self.compile_hold()
        self._same = SameBytes(self.properties, self.stream)
        self._sums = ByteSums(self.properties, self.stream)
        self._mask = Mask(self.properties, self.stream)
        self._stamps = StampClock(self.properties, self.stream)
        self._scrubber = self.scrubber
        # Fills of the same form as torch's, which take longer to queue.
        fills = [self.scrubber.filling(e.data_ptr(), e.nbytes, bytes(e.element_size())) for e in self._evictors]
        self._evict = itertools.cycle(fills)

    def compile_hold(self) -> None:
        """Compile only the kernel that holds the stream until it is resumed; torch's sleeps for a time set before."""
        self._hold = Hold(self.properties, self.stream)

    def _calibrate_spin(self) -> float:
        for _ in range(3):
            start = self.mark()
            self._sleep(SPIN_PROBE_CYCLES)
            end = self.mark()
            self._sync()
        return SPIN_PROBE_CYCLES / self.elapsed_us(start, end)

    def synchronize(self) -> None:
        if self._fence is not None and self._fence.exhausted:
            raise self._torch.OutOfMemoryError("no memory left for a mapping of its own")
        self._sync()
        self._used = 0

    def hold(self, microseconds: float) -> None:
        cycles = int(microseconds * self._cycles_per_us)
        if self._hold is not None:
            self._hold.queue(cycles)
        else:
            self._sleep(cycles)

    def resume(self) -> None:
        if self._hold is not None:
            self._hold.release()

    def flush(self) -> None:
        next(self._evict)()

    def nothing(self) -> None:
        # torch's spinning kernel, asked for no time: it is there without a compiler.
        self._sleep(0)

    def mark(self) -> Any:
        if self._used == len(self._marks):
            self._marks.append(self._torch.cuda.Event(enable_timing=True))
        event = self._marks[self._used]
        self._used += 1
        # Asking torch for its current stream takes ten times as long as the mark itself.
        if self._handle_of(self._index) == self._handle:
            self._record(event, self._stream)
        else:
            self._record_anywhere(event)
        return event

    def passed(self, mark: Any) -> bool:
        return bool(self._query(mark))

    def elapsed_us(self, start: Any, end: Any) -> float:
        return float(self._elapsed(start, end)) * 1e3

    def stamp(self, *, first: bool = False) -> int | None:
        if self._stamps is None:
            return None
        if first:
            self._stamps.begin()
        return self._stamps.queue()

    def stamps_us(self) -> Sequence[float] | None:
        return () if self._stamps is None else self._stamps.read()

    def same(self, claims: Sequence[Claim]) -> torch.Tensor:
        return super().same(claims) if self._same is None else self._same.queue(claims)

    def seal(self, tensors: Sequence[torch.Tensor]) -> Seal:
        return super().seal(tensors) if self._sums is None else self._sums.seal(tensors)

    def mask(self, tensors: Sequence[torch.Tensor], nonces: Sequence[int]) -> None:
        (super().mask if self._mask is None else self._mask.queue)(tensors, nonces)

    def erase(self, tensor: torch.Tensor) -> None:
        if not tensor.is_cuda:
            super().erase(tensor)
            return
        # A call of the driver's: torch would make a tensor of the storage first, which takes four times as long. On the
        # stream that is current, which a kernel may have changed: there the answer is written.
        storage = tensor.untyped_storage()
        if storage.nbytes():
            stream = self._handle_of(self._index)
            (error,) = self._memset(storage.data_ptr(), POISON_BYTE, storage.nbytes(), stream)
            if error != self._fine:
                raise DriverError(f"cuMemsetD8Async: {error.name}")

    def release(self) -> None:
        self._torch.cuda.empty_cache()

    def check_partition(self) -> None:
        """Check that work still runs where it should.

        Raises:
            InfrastructureError: it runs on other multiprocessors, or they do not answer.
        """
        if self.partition is None:
            return
        try:
            sm_ids = self.partition.look()
        except (DriverError, RuntimeError) as error:
            raise InfrastructureError(f"{self.model} does not answer: {error}") from error
        if sm_ids != self.partition.sm_ids:
            raise InfrastructureError(f"work on {self.model} has left its partition")


class CpuDevice(Device):
    """The host's processor, for dry runs and tests."""

    is_gpu = False
    cache_policy = "none"
    torch_name = model = "cpu"

    def __init__(self) -> None:
        """Use one thread, so that other processes disturb little."""
        import torch

        torch.set_num_threads(1)
        self._clock = time.perf_counter_ns

    def mark(self) -> int:
        return self._clock()

    def elapsed_us(self, start: int, end: int) -> float:
        return (end - start) / 1e3
