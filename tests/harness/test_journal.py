"""The journal: torn lines, repeated commits."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kbench.harness.commands.journal import Journal, in_corpus
from kbench.harness.device.environment import make_environment
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.record import make_measurement
from kbench.schemas import DataError, Environment, KernelSource, Measurement

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
    from kbench.loaders.corpus.corpus import Corpus

    for _ in range(2):
        # As if the first run had been killed between its commit and clearing its journal.
        journal = Journal(tmp_path / "corpus")
        for number in range(3):
            journal.add(*entry(number))
        journal.commit()
    assert Corpus.open(tmp_path / "corpus").rows("measurements") == 3
    assert Corpus.open(tmp_path / "corpus").rows("environments") == 1
    assert Corpus.open(tmp_path / "corpus").rows("kernels") == 3


def test_a_folder_has_one_writer_at_a_time(tmp_path: Path) -> None:
    first = Journal(tmp_path / "corpus")
    first.add(*entry(1))
    imports = "import pathlib; from kbench.harness.commands.journal import Journal"
    script = f"{imports}; Journal(pathlib.Path({str(first.folder)!r}))"
    tries = [sys.executable, "-c", script]
    other = subprocess.run(tries, capture_output=True, text=True, check=False)
    assert "is being written by another run" in other.stderr
    first.add(*entry(2))
    first.close()
    assert subprocess.run(tries, capture_output=True, check=False).returncode == 0
    last = Journal(tmp_path / "corpus")
    assert len(last.measurements) == 2
    last.close()


def test_a_damaged_line_is_named_and_left_as_it_is(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "corpus")
    for number in range(3):
        journal.add(*entry(number))
    journal.close()
    lines = journal.path.read_bytes().splitlines(keepends=True)
    damaged = b"".join([lines[0], lines[1][40:], lines[2]])
    journal.path.write_bytes(damaged)
    with pytest.raises(DataError, match=r"journal\.jsonl: line 2 at byte"):
        Journal(tmp_path / "corpus")
    assert journal.path.read_bytes() == damaged


def test_what_a_corpus_holds_of_a_kernel_is_found_by_gpu(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    assert in_corpus(tmp_path / "corpus", ["x"], ["G"]) == {}
    journal, made = Journal(tmp_path / "corpus"), [entry(number) for number in range(3)]
    for one in made:
        journal.add(*one)
    journal.commit()
    asked = [kernel.kernel_id for kernel, _, _ in made[:2]]
    assert in_corpus(tmp_path / "corpus", [*asked, "another"], ["G"]) == {k.kernel_id: m for k, m, _ in made[:2]}
    assert in_corpus(tmp_path / "corpus", asked, ["another GPU"]) == {}
