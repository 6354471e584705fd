"""A small genome family and a table of made-up measurements for it.

The figures exist to exercise the search; they come from no GPU and leave the tests in no form.
"""

import itertools
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from records import filled

from kbench.generation.campaign import campaign
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.genome.template import Family, Gene, Genome
from kbench.generation.search.settings import Budget, RunSettings
from kbench.generation.search.state import Node, Operator, RunState
from kbench.schemas import Backend, Measurement, Status
from kbench.schemas.ids import content_hash, kernel_id

Recorded = dict[str, tuple[Measurement, ...]]
"""Measurements by kernel id."""

PROBLEM = "gelu_tanh"
GENES = (
    Gene("block", (64, 128, 256, 512, 1024, 2048)),
    Gene("warps", (1, 2, 4, 8, 16)),
    Gene("stages", (1, 2, 3, 4)),
    Gene("variant", ("plain", "persistent", "vector"), structural=True),
    Gene("cache", ("", ".ca", ".cg")),
)


def render(problem_id: str, genome: Genome) -> str:
    """Text that looks like a kernel and is unique to its genome."""
    return (
        "import torch\nimport triton\nimport triton.language as tl\n\n"
        f"# {genome['variant']} {genome['cache']}\nBLOCK = {genome['block']}\nVARIANT = {genome['variant']!r}\n"
        f"CACHE = {genome['cache']!r}\n\n\ndef run(x):\n    y = torch.empty_like(x)\n"
        f"    launch(x, y, num_warps={genome['warps']}, num_stages={genome['stages']})\n    return y\n"
    )


FAMILY = Family(
    name="gelu_blocks",
    backend=Backend.TRITON,
    problems=(PROBLEM,),
    genes=lambda problem_id: GENES,
    render=render,
    invalid=lambda problem_id, g: "too few threads" if int(g["block"]) < 32 * int(g["warps"]) else None,
)


def made_up(genome: Genome) -> tuple[Status, float]:
    """A smooth landscape with one summit, a cliff and a failing corner."""
    if genome["variant"] == "vector" and genome["block"] == 2048:
        return Status.COMPILE_ERROR, 0.0
    if genome["cache"] == ".cg" and genome["warps"] == 16:
        return Status.INCORRECT, 0.0
    distance = abs(math.log2(int(genome["block"])) - 9) + abs(math.log2(int(genome["warps"])) - 2)
    bonus = {"plain": 0.0, "persistent": 0.3, "vector": 0.6}[str(genome["variant"])]
    return Status.OK, 2.0 ** (bonus - 0.3 * distance + 0.05 * int(genome["stages"]))


def measurement(key: str, problem_id: str, status: Status, speedup: float, workload: str = "large") -> Measurement:
    """A record with the fields its status carries."""
    ok = status is Status.OK
    figures = {
        "runtime_us": 100 / speedup, "runtime_low_us": 99 / speedup, "runtime_high_us": 101 / speedup,
        "speedup": speedup, "speedup_low": 0.99 * speedup, "speedup_high": 1.01 * speedup,
    } if ok else {}  # fmt: skip
    return filled(
        Measurement, measurement_id=content_hash(key, workload), kernel_id=key, problem_id=problem_id, gpu="made up",
        workload=workload, env_id=content_hash("made up"), status=status, error=None if ok else f"made up {status}",
        samples_us=(1.0, 2.0) if ok else None, anchor_us=(1.0, 2.0) if ok else None, rounds=2 if ok else None,
        compile_ms=1.0, registers=32, shared_bytes=0, spill_bytes=0, build_s=0.25, verify_s=0.03125, time_s=0.0625,
        started_at="2026-01-01T00:00:00Z", **figures,
    )  # fmt: skip


def parent(source: str, **changes: Any) -> Node:
    """A candidate without a parent."""
    values: dict[str, Any] = {
        "kernel_id": "0" * 32, "source": source, "step": 0, "slot": 0, "parent_id": None, "other_id": None,
        "operator": Operator.FRESH, "proposer": "human", "edit": None, "recipe": None, "niche": "n",
    } | changes  # fmt: skip
    return Node(**values)


def recording() -> Recorded:
    """Every genome of the family with its figures."""
    found = {}
    for values in itertools.product(*(gene.choices for gene in GENES)):
        genome = dict(zip((gene.name for gene in GENES), values, strict=True))
        if FAMILY.invalid(PROBLEM, genome) is None:
            key = kernel_id(PROBLEM, Backend.TRITON, render(PROBLEM, genome))
            found[key] = (measurement(key, PROBLEM, *made_up(genome)),)
    return found


@pytest.fixture(scope="session")
def recorded() -> Recorded:
    return recording()


@pytest.fixture
def proposer() -> GenomeProposer:
    return GenomeProposer({FAMILY.name: FAMILY})


def ticking() -> str:
    """A clock that stands still: what remains after timestamps are left out."""
    return "2026-01-01T00:00:00.000Z"


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline's second passes whenever a campaign looks at the time."""
    monkeypatch.setattr(campaign, "time", SimpleNamespace(monotonic=itertools.count().__next__))


@pytest.fixture
def how(recorded: Recorded, proposer: GenomeProposer) -> Drive:
    return replaying(recorded, proposer)


def replaying(recorded: Recorded, proposer: GenomeProposer) -> Drive:
    """A search of the family whose measurements are the recorded ones."""
    return Drive(executor=ReplayExecutor(recorded), clock=ticking, proposer_for=lambda settings: proposer)


def settings_for(method: str, **changes: object) -> RunSettings:
    """A small run of the family's problem."""
    values: dict[str, object] = {
        "problem_id": PROBLEM, "backend": Backend.TRITON, "method": method, "seeds": 4, "batch": 4,
        "budget": Budget(measurements=24),
    } | changes  # fmt: skip
    return RunSettings(**values)


def searched(folder: Path, settings: RunSettings, how: Drive) -> RunState:
    """The state of one search after it ran."""
    drive(folder, [settings], how)
    (state,) = recorded_states(folder).values()
    return state


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    return tmp_path / "run"
