"""Runs searches in forked children, kills them at random moments and resumes them. Started by test_resume.py.

A process of its own, because it forks: the children must share the imports and nothing else.
"""

import dataclasses
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

sys.path.extend(map(str, (Path(__file__).parents[1], Path(__file__).parents[1] / "support")))

from generation.conftest import FAMILY, recording, settings_for, ticking
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.log import read_log
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.search.settings import Budget, FilterSettings, RunSettings

RECORDED = recording()


def run(folder: Path, settings: RunSettings) -> None:
    """Start or resume one run."""
    proposer = GenomeProposer({FAMILY.name: FAMILY})
    how = Drive(executor=ReplayExecutor(RECORDED), clock=ticking, proposer_for=lambda s: proposer, write_every_s=0.0)
    drive(folder, [settings], how)


def killed(folder: Path, settings: RunSettings, after_s: float) -> bool:
    """Run in a child and kill it; whether the kill came before the end."""
    child = os.fork()
    if child == 0:
        run(folder, settings)
        os._exit(0)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def main(folder: Path, kills: int, seed: str) -> None:
    """Print what differed, and how often a kill hit a running search."""
    rng = random.Random(seed)
    variants = [
        settings_for(method, filter=chosen, budget=Budget(measurements=12))
        for method in ("random", "hill_climb", "evolve", "puct")
        for chosen in (None, FilterSettings(surrogate="online", draw=2))
    ]
    expected = {}
    for settings in variants:
        began = time.perf_counter()
        run(folder / settings.run_id, settings)
        expected[settings.run_id] = (list(read_log(folder / settings.run_id)), time.perf_counter() - began)
    hits, different = 0, []
    for number in range(kills):
        settings = variants[number % len(variants)]
        whole, duration = expected[settings.run_id]
        place = folder / f"kill-{number}"
        hits += killed(place, settings, rng.random() * duration)
        run(place, dataclasses.replace(settings))
        if list(read_log(place)) != whole:
            different.append(settings.run_id)
    sys.stdout.write(json.dumps({"hits": hits, "different": different}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
