"""Settings: how a harness measures, from the command's options down to the queues."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kbench.harness.device.target import Target
from kbench.harness.timing.rounds import TimingSettings


@dataclasses.dataclass(frozen=True, slots=True)
class HarnessSettings:
    """How a harness measures; every field has a sensible default."""

    timeout_s: float = 10.0
    """Longest time that a kernel may stay in one stage."""
    build_timeout_s: float = 60.0
    """Longest time that planning and compiling may take."""
    builders: int | None = None
    """Planning processes; by default two fewer than the machine has cores, at most 14."""
    cache: Path | None = None
    """Build cache; by default $KBENCH_CACHE or the user's cache folder."""
    allow_unscreened: bool = False
    """Run kernels that cannot be planned beside their judge, each alone in a fresh process, instead of rejecting them;
    their records say `trust = "process"`."""
    fenced: bool = False
    """Map nothing after a tensor, so that a kernel that goes past its end fails; only for checks."""
    spares: int | None = None
    """Warm workers kept in reserve. By default two on a GPU, where a kernel that ends its worker is tried once more in
    a fresh one and ends that too; one on a CPU. More of them help when many kernels run alone."""
    retries: int = 2
    """Times work is repeated when the machine fails."""
    target: Target | None = None
    """Architecture to build for; by default the first device's."""
    workloads: tuple[str, ...] | None = None
    """Names of the workloads to measure; all by default."""
    max_memory_bytes: int | None = None
    """Memory of the GPU to use: workloads that take more are left out. By default all of it, and a workload that cannot
    fit is an error."""
    timing: TimingSettings = dataclasses.field(default_factory=TimingSettings)
    """When timing stops: the relative half-width of the 95 % interval, and the rounds and device time it may take."""
