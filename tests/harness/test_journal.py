"""The journal: torn lines, repeated commits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbench.harness.environment import make_environment
from kbench.harness.journal import Journal
from kbench.harness.record import make_measurement
from kbench.harness.sources import read_kernel
from kbench.schemas import Environment, KernelSource, Measurement

KERNEL = Path(__file__).parent / "kernels" / "gelu_triton.py"
FACTS: dict[str, Any] = {
    "gpu": "G", "compute_capability": "9.0", "sm_count": 1, "memory_bytes": 1, "l2_bytes": 1,
    "shared_bytes_per_block": 1, "driver": "d", "cuda": "c",
}  # fmt: skip


def entry(number: int) -> tuple[KernelSource, list[Measurement], list[Environment]]:
    kernel = read_kernel(KERNEL, "gelu_tanh")
    kernel = KernelSource(kernel.problem_id, kernel.backend, f"# {number}\n{kernel.source}")
    environment = make_environment(FACTS, "none", None)
    result = {"workload": "large", "status": "incorrect", "error": "wrong"}
    where = {"gpu": "G", "env_id": environment.env_id, "started_at": "2026-01-01T00:00:00+00:00"}
    return kernel, [make_measurement(kernel, None, result, build_s=0.0, **where)], [environment]


def test_a_torn_last_line_is_a_kernel_to_do_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "corpus")
    journal.add(*entry(1))
    journal.add(*entry(2))
    journal.close()
    journal.path.write_bytes(journal.path.read_bytes()[:-20])
    again = Journal(tmp_path / "corpus")
    assert len(again.measurements) == 1
    again.add(*entry(2))
    again.close()
    last = Journal(tmp_path / "corpus")
    last.close()
    assert len(last.measurements) == 2


def test_committing_twice_adds_each_measurement_once(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    from kbench.loaders.corpus import Corpus

    for _ in range(2):
        # As if the first run had been killed between its commit and clearing its journal.
        journal = Journal(tmp_path / "corpus")
        for number in range(3):
            journal.add(*entry(number))
        journal.commit()
    assert Corpus.open(tmp_path / "corpus").rows("measurements") == 3
    assert Corpus.open(tmp_path / "corpus").rows("environments") == 1
    assert Corpus.open(tmp_path / "corpus").rows("kernels") == 3
