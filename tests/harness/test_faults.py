"""Workers and parents killed at random moments: nothing is lost, nothing is duplicated."""

import datetime
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from honest_kernels import KERNELS, numbered

from kbench.harness.commands.journal import Journal
from kbench.harness.device.target import H200, Target
from kbench.harness.isolate.limits import descendants
from kbench.harness.plan.cache import Build, BuildCache, build_id

HERE = Path(__file__).parent
KILLS = 40
SEED = datetime.date.today().toordinal()
"""Other moments every day; the name of a failing test says which."""


def kernel_ids() -> list[str]:
    return [numbered(number).kernel_id for number in range(KERNELS)]


def fill_build_cache(folder: Path) -> None:
    """The interpreter needs no machine code, so every kernel counts as built."""
    cache = BuildCache(folder)
    for key in kernel_ids():
        cache.put(Build(build_id(key, Target(9, 0), H200), compile_ms=1.0), {})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    fill_build_cache(tmp_path / "cache")
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": "src:tests/support", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", HERE / "fault_session.py", tmp_path / "out", tmp_path / "cache"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def run_session(server: subprocess.Popen[str], rng: random.Random, kills: int) -> tuple[int, int]:
    """One session, hit up to `kills` times; returns its exit code and the hits that met a living process."""
    server.stdin.write("go\n")
    server.stdin.flush()
    session, hits = int(server.stdout.readline()), 0
    for number in range(kills):
        time.sleep(rng.uniform(0.0, 0.15))
        _, *below = descendants(session, 1000)
        victim = session if number == kills - 1 or not below else rng.choice(below)
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            continue
        hits += 1
    return int(server.stdout.readline()), hits


@pytest.mark.parametrize("seed", [SEED])
def test_killing_workers_and_parents_at_any_moment_loses_and_repeats_nothing(
    server: subprocess.Popen[str], tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    hits = 0
    while hits < KILLS:
        code, met = run_session(server, rng, 5)
        hits += met
        if code == 0:
            # All kernels were done before the last kill: start over with an empty folder.
            check_complete(tmp_path / "out")
            (tmp_path / "out.journal.jsonl").unlink()
    code, _ = run_session(server, rng, 0)
    assert code == 0
    check_complete(tmp_path / "out")


def check_complete(folder: Path) -> None:
    written = folder.with_name("out.journal.jsonl").read_text()
    lines = [json.loads(line) for line in written.splitlines()]
    found = [line["measurements"][0]["kernel_id"] for line in lines]
    assert sorted(found) == sorted(kernel_ids())
    assert [m["error"] for line in lines for m in line["measurements"] if m["status"] != "ok"] == []
    journal = Journal(folder)
    journal.close()
    assert sorted(journal.measurements) == sorted(kernel_ids())
