"""A measurement, the environment it was made in, a time of a tuning table, and an event of a search."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Count, Name, NonNegative, Positive, Record, Sha
from kbench.schemas.status import Status, Trust


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Environment(Record):
    """The machine and software a measurement was made in."""

    TYPE: ClassVar[str] = "environment"
    VERSION: ClassVar[str] = "1.0.0"

    env_id: Sha
    """Hash of all other fields."""
    gpu: str
    """GPU name as the driver reports it."""
    compute_capability: str
    """Such as 9.0."""
    sm_count: Count
    """Streaming multiprocessors."""
    memory_bytes: Count
    """Device memory."""
    l2_bytes: Count
    """L2 cache."""
    shared_bytes_per_block: Count
    """Largest opt-in shared memory of one block."""
    driver: str
    """Driver version."""
    cuda: str
    """CUDA runtime version."""
    python: str
    """Python version."""
    torch: str
    """PyTorch version."""
    triton: str
    """Triton version."""
    nvrtc: str | None
    """NVRTC version; null when absent."""
    copy_bandwidth_gbs: Positive | None
    """Measured device-to-device copy, bytes read plus written, in 1e9 bytes per second."""
    matmul_peak_tflops: Positive | None
    """Measured large bf16 matrix product on random data."""
    timer_step_ns: Positive | None
    """Measured granularity of the event timer."""
    sandbox: str
    """What isolation was in force, such as netns+rlimit+scratch."""
    kbench: str
    """kbench version."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measurement(Record):
    """One kernel on one GPU and one workload: verdict, raw samples, interval, conditions."""

    TYPE: ClassVar[str] = "measurement"
    VERSION: ClassVar[str] = "1.3.0"

    measurement_id: Sha
    """Hash of kernel, GPU, workload, environment and start time."""
    kernel_id: Sha
    """The kernel."""
    problem_id: Name
    """The kernel's problem."""
    gpu: str
    """GPU name as the driver reports it."""
    workload: Name
    """The workload's name."""
    env_id: Sha | None
    """The environment it was measured in; null when it was measured elsewhere, and then figures may be null too."""
    status: Status
    """Verdict on this workload."""
    error: str | None
    """What happened, when the status is a failure."""
    runtime_us: Positive | None
    """Device time of one call in steady state: typical of each round, then their geometric mean (docs/harness.md)."""
    runtime_low_us: Positive | None
    """Lower end of its 95 % interval."""
    runtime_high_us: Positive | None
    """Upper end of its 95 % interval."""
    speedup: Positive | None
    """PyTorch reference time over kernel time, both in the same rounds."""
    speedup_low: Positive | None
    """Lower end of its 95 % interval."""
    speedup_high: Positive | None
    """Upper end of its 95 % interval."""
    samples_us: tuple[float, ...] | None
    """Raw kernel samples in the order taken; null when not timed."""
    anchor_us: tuple[float, ...] | None
    """Raw samples of the problem's anchor taken in the same rounds."""
    rounds: Count | None
    """Interleaved rounds taken."""
    cache_policy: str | None
    """How L2 was made cold: flush or rotate."""
    max_abs_error: NonNegative | None
    """Largest absolute error over seeds; null when no output was compared."""
    max_rel_error: NonNegative | None
    """Largest error relative to the tolerance's scale over seeds."""
    floor_us: NonNegative | None
    """Roofline floor: no correct kernel is faster."""
    second_clock_us: Positive | None
    """Median by an independent clock (CUPTI), on a sampled share."""
    clocks_disagree: bool | None
    """Whether the two clocks differ by more than the stated bound."""
    ruler_us: Positive | None = None
    """What an empty kernel took between the same marks in this process; null when none was timed."""
    shift_us: float | None = None
    """Taken off every time of kernel and anchor: ruler less the GPU model's usual one; null when nothing was."""
    sm_clock_mhz: tuple[float, ...] | None
    """SM clock read in every round, one value a round (rows of older schemas: one every several rounds)."""
    temperature_c: tuple[float, ...] | None
    """GPU temperature read in every round, one value a round."""
    power_w: tuple[float, ...] | None
    """Board power read in every round, one value a round."""
    throttle_reasons: tuple[str, ...] | None
    """Every throttle reason seen during the rounds."""
    compile_ms: NonNegative | None
    """Wall time of the build."""
    registers: Count | None
    """Registers per thread, the largest over device functions."""
    shared_bytes: Count | None
    """Shared memory per block, the largest over device functions."""
    spill_bytes: Count | None
    """Local memory per thread used by spills, the largest over device functions."""
    cubin_sha: Sha | None
    """Hash of the machine code."""
    build_s: NonNegative | None
    """Seconds spent building, charged to the ledger once per kernel; null when imported."""
    verify_s: NonNegative | None
    """GPU seconds spent verifying; null when imported."""
    time_s: NonNegative | None
    """GPU seconds spent timing; null when imported."""
    started_at: str | None
    """Start, ISO 8601 in UTC; null when the origin does not state it."""
    trust: Trust | None = None
    """What stood between the kernel and its judge: `plan`, no foreign Python in the process that timed it; `process`,
    its host code ran beside the judge. Null in rows measured before plans, and when not run."""
    not_restored: tuple[str, ...] | None = None
    """What a call could find as an earlier one left it; empty when nothing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TuningTime(Record):
    """One configuration of a tuned kernel at one shape: verdict and time."""

    TYPE: ClassVar[str] = "tuning_time"
    VERSION: ClassVar[str] = "1.1.0"

    kernel: Name
    """The kernel that is tuned: a genome family whose genes are numbers."""
    problem_id: Name
    """The problem it solves."""
    gpu: str
    """GPU name as the driver reports it."""
    split: str
    """The kernel's split: nothing is fitted to kernels of `test`."""
    shape_json: str
    """The shape's parameters as a JSON object with sorted keys."""
    shown: bool
    """Whether questions about other shapes of this kernel show this one's times."""
    config_json: str
    """The configuration: value by gene, as a JSON object with sorted keys."""
    status: Status
    """Verdict at this shape; a configuration that asks for too much is a row as well."""
    error: str | None
    """What happened, when the status is a failure."""
    runtime_us: Positive | None
    """Device time of one call; null when not timed."""
    runtime_low_us: Positive | None
    """Lower end of its 95 % interval."""
    runtime_high_us: Positive | None
    """Upper end of its 95 % interval."""
    registers: Count | None
    """Registers per thread, the largest over device functions."""
    shared_bytes: Count | None
    """Shared memory per block, the largest over device functions."""
    spill_bytes: Count | None
    """Local memory per thread used by spills, the largest over device functions."""
    compile_ms: NonNegative | None
    """Wall time of the build, for all shapes of the configuration."""
    env_id: Sha | None
    """The environment it was measured in; null where the corpus does not have it."""
    space_json: str | None = None
    """What the configuration was drawn from, as a JSON object: choices by gene, conditions under which a combination is
    refused with their reasons, and how many configurations are left."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event(Record):
    """One fact in a search's append-only log; a run is its log."""

    TYPE: ClassVar[str] = "event"
    VERSION: ClassVar[str] = "1.0.0"

    run_id: str
    """The run."""
    index: Count
    """Position in the log, from 0 without gaps."""
    kind: Name
    """What happened, such as candidate_proposed."""
    step: Count
    """The search step it belongs to."""
    at: str
    """When, ISO 8601 in UTC; the only field replay may change."""
    payload_json: str
    """The fact's fields as a JSON object with sorted keys."""
