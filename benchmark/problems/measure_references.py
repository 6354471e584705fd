"""Time every reference on every workload on this GPU and set it against ceilings measured in the same run.

python -m kbench.benchmark.problems.measure_references --out references.json
python -m kbench.benchmark.problems.measure_references --render references.json --docs docs/problems.md
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbench.benchmark.problems.check import first_line
from kbench.benchmark.problems.definition import COMPUTE_UNITS, ProblemDefinition, Size
from kbench.benchmark.problems.lazy_torch import torch
from kbench.benchmark.problems.registry import problem, problems
from kbench.schemas import UserError

if TYPE_CHECKING:
    from torch import Tensor

FLUSH_BYTES = 256 << 20
"""Written between calls: more than twice the L2 cache of any GPU we know."""
REPEATS = 9
MARGIN = 1.05
"""A reference counts as within a ceiling up to this factor: both are measured, and each to a few percent."""


class Clock:
    """Times calls by CUDA events, the L2 cache flushed before each, queued without waiting for the host."""

    def __init__(self) -> None:
        self.scratch = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")

    def time_us(self, function: Callable[[], Any], repeats: int = REPEATS) -> list[float]:
        """Device microseconds of each call, in order."""
        for _ in range(2):
            function()
        torch.cuda.synchronize()
        events = [(_event(), _event()) for _ in range(repeats)]
        for start, end in events:
            self.scratch.zero_()
            start.record()
            function()
            end.record()
        torch.cuda.synchronize()
        return [1000.0 * start.elapsed_time(end) for start, end in events]


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def float32_precision(unit: str) -> Iterator[None]:
    """TF32 on while its own peak is measured, off for all else: torch lets convolutions use it by default."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = unit == "tf32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def bandwidth_ceilings(clock: Clock) -> dict[str, float]:
    """GB/s of copying, of reading and of writing 2 GiB."""
    source = torch.randn(1 << 29, device="cuda")
    target = torch.empty_like(source)
    gigabytes = source.numel() * 4 / 1e9
    work: dict[str, tuple[float, Callable[[], Any]]] = {
        "copy": (2 * gigabytes, lambda: target.copy_(source)),
        "read": (gigabytes, lambda: source.sum()),
        "write": (gigabytes, lambda: target.fill_(1.5)),
    }
    return {name: amount / min(clock.time_us(call)) * 1e6 for name, (amount, call) in work.items()}


def _operands(unit: str, n: int) -> tuple[Tensor, Tensor]:
    dtypes = {"fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}
    if unit == "int8":
        a, b = (torch.randint(-100, 100, (n, n), dtype=torch.int8, device="cuda") for _ in range(2))
    else:
        a, b = (torch.randn(n, n, device="cuda").to(dtypes.get(unit, torch.float32)) for _ in range(2))
    return a, b.t() if unit in ("fp8", "int8") else b


def _product(unit: str, a: Tensor, b: Tensor) -> Callable[[], Any]:
    if unit == "int8":
        return lambda: torch._int_mm(a, b)
    if unit == "fp8":
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    return lambda: a @ b


def peak_tflops(clock: Clock, unit: str) -> float:
    """Best TFLOP/s of large square products on one unit."""
    best = 0.0
    for n in (4096, 8192) if unit not in ("fp32", "fp64") else (4096,):
        with float32_precision(unit):
            call = _product(unit, *_operands(unit, n))
            best = max(best, 2 * n**3 / min(clock.time_us(call, repeats=7)) / 1e6)
    return best


def measure_size(clock: Clock, chosen: ProblemDefinition, size: Size) -> dict[str, Any]:
    """Time and rates of one reference on one workload."""
    inputs = chosen.draw(size, chosen.seed, "cuda")
    with float32_precision("fp32"):
        samples = clock.time_us(lambda: chosen.reference(*inputs))
    median = statistics.median(samples)
    work = chosen.workload(size)
    return {
        "samples_us": samples,
        "median_us": median,
        "flops": work.flops,
        "min_bytes": work.min_bytes,
        "gbps": work.min_bytes / median / 1e3,
        "tflops": work.flops / median / 1e6,
    }


def measure_all(chosen: Sequence[ProblemDefinition]) -> dict[str, Any]:
    """The whole record; a problem that fails is recorded with its error and the rest goes on."""
    clock = Clock()
    peaks: dict[str, float | None] = {}
    bandwidth = bandwidth_ceilings(clock)
    for unit in COMPUTE_UNITS:
        peaks[unit] = _attempt(lambda unit=unit: peak_tflops(clock, unit))  # type: ignore[misc]
    torch.cuda.empty_cache()
    rows = []
    with click.progressbar(chosen, label="references", file=sys.stderr) as bar:
        for one in bar:
            for size in one.sizes:
                rows.append(_row(clock, one, size, bandwidth, peaks))
            torch.cuda.empty_cache()
    return {"environment": environment(), "bandwidth_gbps": bandwidth, "peak_tflops": peaks, "references": rows}


def _attempt(measure: Callable[[], float]) -> float | None:
    try:
        return measure()
    except RuntimeError as error:
        click.echo(f"ceiling not measured: {first_line(error)}", err=True)
        return None


def _row(
    clock: Clock, one: ProblemDefinition, size: Size, bandwidth: dict[str, float], peaks: dict[str, float | None]
) -> dict[str, Any]:
    head = {"problem_id": one.id, "family": one.family, "workload": size.name, "compute_unit": one.compute_unit}
    try:
        found = measure_size(clock, one, size)
    except Exception as error:  # noqa: BLE001 - one broken reference must not lose the other measurements
        return head | {"error": f"{type(error).__name__}: {first_line(error)}"}
    peak = peaks.get(one.compute_unit)
    share_bytes = found["gbps"] / max(bandwidth.values())
    share_flops = found["tflops"] / peak if peak else None
    within = share_bytes <= MARGIN and (share_flops is None or share_flops <= MARGIN)
    return head | found | {"share_of_bandwidth": share_bytes, "share_of_peak": share_flops, "within_ceilings": within}


def environment() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "flush_bytes": FLUSH_BYTES,
        "repeats": REPEATS,
        "margin": MARGIN,
    }


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="Measure, and write the record here.")
@click.option("--problem", "names", multiple=True, help="Only these problems.")
@click.option("--render", "record", type=click.Path(path_type=Path, exists=True), help="Render this record instead.")
@click.option("--docs", type=click.Path(path_type=Path, exists=True), help="Page whose table is replaced.")
def main(out: Path | None, names: tuple[str, ...], record: Path | None, docs: Path | None) -> None:
    """Measure references on this GPU, or render a record into a page."""
    if record is not None:
        from kbench.benchmark.problems.reference_table import insert_table, render_table

        table = render_table(json.loads(record.read_text()))
        if docs is None:
            click.echo(table)
        else:
            docs.write_text(insert_table(docs.read_text(), table))
        return
    if out is None:
        raise UserError("nothing to do; give --out to measure or --render to write a table")
    if not torch.cuda.is_available():
        raise UserError("measuring references needs a CUDA device; none is visible")
    found = measure_all([problem(name) for name in names] or list(problems().values()))
    out.write_text(json.dumps(found, indent=1) + "\n")
    rows = found["references"]
    failed = [f"{row['problem_id']}/{row['workload']}: {row['error']}" for row in rows if "error" in row]
    over = [f"{row['problem_id']}/{row['workload']}" for row in rows if row.get("within_ceilings") is False]
    click.echo(json.dumps({"measured": len(rows) - len(failed), "failed": failed, "over_ceiling": over}, indent=1))


if __name__ == "__main__":
    main()
