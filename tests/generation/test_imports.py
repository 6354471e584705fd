import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ABSENT = ("polars", "datasets", "jsonschema", "matplotlib", "pandas", "openai", "ray", "scoringrules")
"""Packages a measuring machine need not have."""


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT / "src")}, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_campaign_needs_none_of_the_packages_a_measuring_machine_lacks() -> None:
    script = f"""
import sys
for name in {ABSENT!r}:
    sys.modules[name] = None
import kbench.generation.cli
assert "numpy" not in sys.modules, "the command limits numpy's threads before it loads"
from pathlib import Path
from kbench.generation.campaign.plan import read_spec, runs_of
from kbench.generation.proposers.mixed import proposer
proposer("genome+rewrite")
runs, uncovered = runs_of(read_spec(Path("examples/campaign.json")))
assert "torch" not in sys.modules, "planning a campaign needs no torch"
print(len(runs))
"""
    assert int(run(script)) > 0
