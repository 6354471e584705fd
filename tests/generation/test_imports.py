from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ABSENT = ("polars", "datasets", "jsonschema", "matplotlib", "pandas", "openai", "ray", "scoringrules")
"""Packages a measuring machine need not have."""


def test_a_campaign_needs_none_of_the_packages_a_measuring_machine_lacks() -> None:
    script = f"""
import sys
for name in {ABSENT!r}:
    sys.modules[name] = None
import kbench.generation.cli
import kbench.generation.session
import kbench.generation.spec
import kbench.generation.pack
import kbench.generation.ingest
import kbench.generation.executors.local
import kbench.generation.proposers.rewrite.proposer
from kbench.generation.spec import CampaignSpec, runs_of
from kbench.generation.proposers.registry import proposer
proposer("genome+rewrite")
runs, uncovered = runs_of(CampaignSpec())
assert "torch" not in sys.modules, "planning a campaign needs no torch"
print(len(runs))
"""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(root / "src")},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
