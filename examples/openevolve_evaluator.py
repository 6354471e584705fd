"""An evaluator for OpenEvolve: the kernels it evolves are verified and timed on the local GPU.

openevolve-run examples/kernels/softmax__triton__whole_row.py examples/openevolve_evaluator.py --config config.yaml

In config.yaml, `evaluator: {parallel_evaluations: 1}` keeps two kernels from being timed at once.
"""

from pathlib import Path

from kbench import Backend, KernelSource
from kbench.benchmark.rewards import kernel_score
from kbench.harness import KernelJudge

judge = KernelJudge()


def evaluate(program_path: str) -> dict[str, float]:
    """The metrics of one program; OpenEvolve maximises combined_score."""
    found = judge(KernelSource("softmax", Backend.TRITON, Path(program_path).read_text("utf-8")))
    return {
        "combined_score": kernel_score(found.status, found.speedup),
        "speedup": found.speedup or 0.0,
        "compiled": float(found.status != "compile_error"),
        "correct": float(found.status == "ok"),
    }
