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
import kbench.generation.campaign.drive
import kbench.generation.campaign.spec
import kbench.generation.log.pack
import kbench.generation.campaign.plan
import kbench.generation.proposers.folder
import kbench.generation.executors.local
import kbench.generation.proposers.rewrite.proposer
from pathlib import Path
from kbench.generation.campaign.spec import read_spec, runs_of
from kbench.generation.proposers.registry import proposer
proposer("genome+rewrite")
runs, uncovered = runs_of(read_spec(Path("examples/campaign.json")))
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
        cwd=root,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0
