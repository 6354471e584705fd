"""Measure the fixture kernels in published forms on GPU 0 and write docs/evidence/published_forms.json.

python docs/evidence/scripts/published_forms.py
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

from kbench.harness.progress import Progress
from kbench.harness.session import remeasure
from kbench.loaders.corpus import load

ROOT = Path(__file__).parents[3]
KEPT = (
    "problem_id", "workload", "gpu", "status", "error", "runtime_us", "runtime_low_us", "runtime_high_us", "speedup",
    "speedup_low", "speedup_high", "compile_ms", "rounds", "max_abs_error", "started_at",
)  # fmt: skip


def main() -> None:
    """Import the fixtures, measure every one through its adapter, keep what was found."""
    spec = importlib.util.spec_from_file_location("forms", ROOT / "tests" / "harness" / "test_published_forms.py")
    assert spec is not None
    assert spec.loader is not None
    forms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(forms)
    with tempfile.TemporaryDirectory() as folder:
        corpus, out = forms.write_corpus(Path(folder) / "corpus"), Path(folder) / "measured"
        options: dict[str, Any] = {
            "corpus": str(corpus), "where": None, "limit": None, "gpu": "0", "out": out, "half_width": 0.01,
            "timeout_s": 300.0,
        }  # fmt: skip
        remeasure(options, Progress)
        sources = {path.read_text(): path.name for path in forms.FILES}
        kernels = {row["kernel_id"]: row for row in load(out).to_arrow().to_pylist()}
        rows = [
            {"file": sources[kernels[row["kernel_id"]]["source"]], **{name: row[name] for name in KEPT}}
            for row in load(out, config="measurements").to_arrow().to_pylist()
        ]
    target = ROOT / "docs" / "evidence" / "published_forms.json"
    target.write_text(json.dumps(sorted(rows, key=lambda row: (row["file"], row["workload"])), indent=1) + "\n")


if __name__ == "__main__":
    main()
