"""Measure the fixture kernels in published forms on GPU 0 and write docs/evidence/published_forms.json.

    PYTHONPATH=src python docs/evidence/scripts/published_forms.py [OUTPUT.json]

The fixtures become a pulled corpus named gpu-forecasters in a folder of their own, and are measured by the command a
user would give, once for each backend: `kbench measure --corpus gpu-forecasters --where "backend='triton'"`. What one
backend cannot do here (a missing compiler, say) is recorded and keeps nobody else from being measured.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from kbench.loaders.corpus.corpus import load
from kbench.loaders.corpus.manifest import NAME as MANIFEST

ROOT = Path(__file__).parents[3]
TARGET = ROOT / "docs" / "evidence" / "published_forms.json"
CORPUS = "gpu-forecasters"
LONGEST_S = 420
"""A torch extension takes a C++ compiler the better part of a minute; the rest takes seconds."""
SAID = 1500
"""Characters of a command's last words that are kept."""
KEPT = (
    "problem_id", "workload", "gpu", "status", "error", "runtime_us", "runtime_low_us", "runtime_high_us", "speedup",
    "speedup_low", "speedup_high", "compile_ms", "rounds", "max_abs_error", "started_at", "env_id",
)  # fmt: skip


def fixtures() -> ModuleType:
    """The test module that knows the fixtures."""
    spec = importlib.util.spec_from_file_location("forms", ROOT / "tests" / "harness" / "test_published_forms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(home: Path, backend: str, out: Path) -> dict[str, Any]:
    """Run the command for one backend; what it said and how it ended."""
    arguments = [
        "measure", "--corpus", CORPUS, "--where", f"backend='{backend}'", "--out", str(out),
        "--timeout", "120", "--json",
    ]  # fmt: skip
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "kbench", *arguments],
            env=os.environ | {"KBENCH_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        code, said = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        code, said = -1, f"took longer than {LONGEST_S} s"
    seconds = round(time.monotonic() - began, 1)
    where = f"--corpus {CORPUS} --where \"backend='{backend}'\""
    return {"command": f"kbench measure {where}", "exit_code": code, "seconds": seconds, "said": said[-SAID:].strip()}


def rows_of(out: Path, names: dict[str, str]) -> list[dict[str, Any]]:
    """The measurements a command wrote, each with the fixture's file."""
    if not (out / MANIFEST).exists():
        return []
    kernels = {row["kernel_id"]: row["source"] for row in load(out).to_arrow().to_pylist()}
    return [
        {"file": names[kernels[row["kernel_id"]]], **{name: row[name] for name in KEPT}}
        for row in load(out, config="measurements").to_arrow().to_pylist()
    ]


def main() -> None:
    """Import the fixtures, measure every one through its adapter, keep what was found."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    forms = fixtures()
    names = {path.read_text(): path.name for path in forms.FILES}
    runs, rows, environments = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        forms.write_corpus(home / CORPUS)
        for backend in ("triton", "cuda"):
            out = home / f"measured-{backend}"
            runs.append(measure(home, backend, out))
            rows += rows_of(out, names)
            if rows and (out / MANIFEST).exists():
                environments |= {e["env_id"]: e for e in load(out, config="environments").to_arrow().to_pylist()}
    found = {
        "runs": runs,
        "not_measured": sorted(set(names.values()) - {row["file"] for row in rows}),
        "measurements": sorted(rows, key=lambda row: (row["file"], row["workload"])),
        "environments": list(environments.values()),
    }
    target.write_text(json.dumps(found, indent=1, default=str) + "\n")


if __name__ == "__main__":
    main()
