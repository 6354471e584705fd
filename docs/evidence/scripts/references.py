r"""Time every reference on every workload as the harness ramps it, and set it against ceilings of the same run.

python docs/evidence/scripts/references.py --out docs/evidence/problems/h200-references.json
python docs/evidence/scripts/references.py --render docs/evidence/problems/h200-references.json \
    --docs docs/results/references.md
python docs/evidence/scripts/references.py --cpu --out FILE            # dry run: tiny workloads, figures of a CPU
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from reference_table import MARGIN, insert_table, rates, render_table, shares

from kbench.benchmark.problems.check import first_line
from kbench.benchmark.problems.definition import COMPUTE_UNITS, ProblemDefinition, Size
from kbench.benchmark.problems.lazy_torch import torch
from kbench.benchmark.problems.registry import problem, problems
from kbench.harness.bench.context import ContextCache
from kbench.harness.commands.references import open_device
from kbench.harness.device.device import Device
from kbench.harness.device.environment import device_facts, software_facts
from kbench.harness.timing.batch import Sampler, Slot
from kbench.harness.timing.rounds import ANCHOR, ramp
from kbench.schemas import KbenchError, UserError

if TYPE_CHECKING:
    from torch import Tensor

WARM, REPEATS = 3, 8
"""Calls of a ceiling's work before it is timed, and timed ones, of which the best counts."""


class Bench:
    """A device, the harness's sampler on it, and the inputs of one workload at a time."""

    def __init__(self, device: Device) -> None:
        self.device, self.sampler = device, Sampler(device)
        self.contexts = ContextCache(device, 0, (0,))

    def best_us(self, label: str, call: Callable[[], Any]) -> float:
        """Shortest time of some work, once warm: a ceiling must not be beaten by luck."""
        self.sampler.run([Slot(label, 0, call)] * WARM)
        return min(sample.time_us for sample in self.sampler.run([Slot(label, 0, call)] * REPEATS))

    def sizes(self, one: ProblemDefinition) -> Sequence[Size]:
        """What is timed: all sizes on a GPU, the tiny one elsewhere."""
        return one.sizes if self.device.is_gpu else (one.tiny,)


@contextlib.contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """TF32 on while its own peak is measured, off for all else, as in the harness."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def bandwidth_ceilings(bench: Bench) -> dict[str, float]:
    """GB/s of copying, of reading and of writing 2 GiB (4 MiB on a CPU)."""
    source = torch.randn(1 << (29 if bench.device.is_gpu else 20), device=bench.device.torch_name)
    target = torch.empty_like(source)
    gigabytes = source.numel() * 4 / 1e9
    work: dict[str, tuple[float, Callable[[], Any]]] = {
        "copy": (2 * gigabytes, lambda: target.copy_(source)),
        "read": (gigabytes, lambda: source.sum()),
        "write": (gigabytes, lambda: target.fill_(1.5)),
    }
    return {name: amount / bench.best_us(name, call) * 1e6 for name, (amount, call) in work.items()}


def _operands(unit: str, n: int, place: str) -> tuple[Tensor, Tensor]:
    dtypes = {"fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.float8_e4m3fn}
    if unit == "int8":
        a, b = (torch.randint(-100, 100, (n, n), dtype=torch.int8, device=place) for _ in range(2))
    else:
        a, b = (torch.randn(n, n, device=place).to(dtypes.get(unit, torch.float32)) for _ in range(2))
    return a, b.t() if unit in ("fp8", "int8") else b


def _product(unit: str, a: Tensor, b: Tensor) -> Callable[[], Any]:
    if unit == "int8":
        return lambda: torch._int_mm(a, b)
    if unit == "fp8":
        one = torch.ones((), device=a.device)
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    return lambda: a @ b


def peak_tflops(bench: Bench, unit: str) -> float | None:
    """Best TFLOP/s of large square products on one unit; None where the device cannot."""
    sides = (4096, 8192) if unit not in ("fp32", "fp64") else (4096,)
    best = 0.0
    for n in sides if bench.device.is_gpu else (128,):
        try:
            with tf32(unit == "tf32"):
                call = _product(unit, *_operands(unit, n, bench.device.torch_name))
                best = max(best, 2 * n**3 / bench.best_us(f"{unit} {n}", call) / 1e6)
        except RuntimeError as error:
            click.echo(f"peak of {unit} not measured: {first_line(error)}", err=True)
            return None
    return best


def measure(bench: Bench, one: ProblemDefinition, size: Size) -> dict[str, Any]:
    """Steady time and rates of one reference on one workload; its error when it fails."""
    head = {"problem_id": one.id, "family": one.family, "workload": size.name, "compute_unit": one.compute_unit}
    exposed = bench.sampler.exposed
    try:
        steady = ramp(bench.contexts.get(one.id, size), bench.sampler)
    except KbenchError:
        raise
    except Exception as error:  # noqa: BLE001 - one broken reference must not lose the other measurements
        return head | {"error": f"{type(error).__name__}: {first_line(error)}"}
    found = {"exposed_samples": bench.sampler.exposed - exposed, "waits": bench.sampler.waits.get(ANCHOR, False)}
    return head | rates(one.workload(size), steady) | found


def measure_all(bench: Bench, chosen: Sequence[ProblemDefinition]) -> dict[str, Any]:
    """The whole record; a problem that fails is recorded with its error and the rest goes on."""
    facts = device_facts(bench.device) | software_facts() | {"cache": bench.device.cache_policy, "margin": MARGIN}
    bandwidth = bandwidth_ceilings(bench)
    peaks = {unit: peak_tflops(bench, unit) for unit in COMPUTE_UNITS}
    rows = []
    with click.progressbar(chosen, label="references", file=sys.stderr) as bar:
        for one in bar:
            rows += [measure(bench, one, size) for size in bench.sizes(one)]
            bench.contexts.drop()
    rows = [row if "error" in row else row | shares(row, bandwidth, peaks) for row in rows]
    return {"environment": facts, "bandwidth_gbps": bandwidth, "peak_tflops": peaks, "references": rows}


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="Measure, and write the record here.")
@click.option("--problem", "names", multiple=True, help="Only these problems.")
@click.option("--cpu", is_flag=True, help="Dry run on this machine's processor.")
@click.option("--render", "record", type=click.Path(path_type=Path, exists=True), help="Render this record instead.")
@click.option("--docs", type=click.Path(path_type=Path, exists=True), help="Page whose table is replaced.")
def main(out: Path | None, names: tuple[str, ...], cpu: bool, record: Path | None, docs: Path | None) -> None:
    """Measure references, or render a record into a page."""
    if record is not None:
        table = render_table(json.loads(record.read_text()))
        if docs is None:
            click.echo(table)
        else:
            docs.write_text(insert_table(docs.read_text(), table))
        return
    if out is None:
        raise UserError("nothing to do; give --out to measure or --render to write a table")
    chosen = [problem(name) for name in names] or list(problems().values())
    found = measure_all(Bench(open_device(None if cpu else 0)), chosen)
    out.write_text(json.dumps(found, indent=1) + "\n")
    rows = found["references"]
    named = {
        "failed": [f"{_name(row)}: {row['error']}" for row in rows if "error" in row],
        "over_ceiling": [_name(row) for row in rows if row.get("within_ceilings") is False],
        "waiting": [_name(row) for row in rows if row.get("waits")],
    }
    click.echo(json.dumps({"measured": len(rows) - len(named["failed"])} | named, indent=1))


def _name(row: dict[str, Any]) -> str:
    return f"{row['problem_id']}/{row['workload']}"


if __name__ == "__main__":
    main()
