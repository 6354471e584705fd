"""What a model is told: the problem, the rules for kernels, the GPU, the parents and how they measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kbench.benchmark.problems.registry import problem
from kbench.generation.search.outcome import KernelOutcome
from kbench.generation.search.proposal import Ask, ProposalTask
from kbench.generation.search.state import Node, Operator
from kbench.schemas import Backend

SYSTEM = (
    "You write GPU kernels. Answer with exactly one Python code block that holds the whole kernel file and nothing "
    "else that is code. Correctness is checked on several sizes, seeds and adversarial inputs before anything is "
    "timed; speed is device time with a cold L2 cache."
)
RULES = {
    Backend.TRITON: (
        "Write Triton: @triton.jit functions launched from run(). Import only torch, triton, triton.language as tl, "
        "triton.tools.tensor_descriptor and math. triton.autotune with a handful of configurations and "
        "triton.heuristics are allowed, and so are tensor descriptors (TensorDescriptor on the host, "
        "tl.make_tensor_descriptor in the kernel; no allocator has to be set), warp specialisation "
        "(tl.range(..., warp_specialize=True)), persistent grids and several launches."
    ),
    Backend.CUDA: (
        "Write CUDA C++17 in a raw string, compiled by NVRTC: `from kbench.harness.cuda import CudaModule, TensorMap`, "
        "`module = CudaModule(r'''extern \"C\" __global__ void name(...) { ... }''')` at module level, and in run() "
        '`module.launch("name", grid=..., block=..., args=(...), shared_bytes=..., cluster=..., cooperative=...)`. '
        'Options of CudaModule: names=("scale<4>",) for template instantiations, fast_math=True, max_registers=64. '
        "Arguments: a tensor passes its address, an int fits any integer parameter, a float is a C float, and "
        "`TensorMap(tensor, box=(rows, cols), swizzle=0|32|64|128)` fits `const __grid_constant__ CUtensorMap`. "
        "shared_bytes above 48 KiB, clusters and cooperative launches need nothing else. On compute capability 9.0 "
        "the target is sm_90a: wgmma, TMA (cp.async.bulk, cp.async.bulk.tensor), mbarrier and setmaxnreg are there "
        "through inline PTX. Headers: cuda_fp16.h, cuda_bf16.h, cuda_fp8.h, mma.h, cooperative_groups.h; no cuda.h, so "
        "declare `struct alignas(64) CUtensorMap { char bytes[128]; };` yourself. Import only torch, math and "
        "kbench.harness.cuda. No device-side malloc: put scratch into a tensor."
    ),
}
COMMON = (
    "The host code of run() is executed once per workload without a GPU, to record what it launches: it may depend on "
    "shapes, strides and dtypes, never on values (no .item(), .tolist() or branches on contents). There torch may "
    "allocate, view, fill and copy; every other torch operator is refused, so the kernels do all the computing. "
    "Derive every size from the inputs' shapes, so that it works for sizes other than those listed. Inputs are "
    "contiguous and must not be changed; allocate the outputs; return one tensor, or a tuple in the order listed."
)
NUMERICS = (
    "Besides random inputs there are adversarial ones, such as large and small magnitudes, constant rows and ties. Use "
    "formulas that are safe for them: subtract the maximum before exponentials, take variances around the mean, start "
    "maxima from -inf, accumulate in float32."
)
LONGEST_ERROR = 2000
"""Characters of an error text that are shown: its beginning and its end."""
MEASURED = frozenset({"copy_bandwidth_gbs", "matmul_peak_tflops"})
"""Facts of a GPU that differ a little between machines of its type."""


def messages(task: ProposalTask, ask: Ask) -> list[dict[str, str]]:
    """The chat messages of one request."""
    asked = problem(task.problem_id)
    cases = "".join(f"\n- {case.stresses}" for case in asked.cases)
    parts = [
        "# Problem\n" + asked.prompt(),
        f"# Rules\n{RULES[task.backend]}\n{COMMON}",
        f"# Numerics\n{NUMERICS}" + (f" Here:{cases}" if cases else ""),
    ]
    facts = device_facts(json.loads(task.gpu_facts_json))
    if facts:
        parts.append("# GPU\n" + facts)
    parts.extend(_kernel(name, node) for name, node in (("Kernel", ask.parent), ("Second kernel", ask.other)) if node)
    parts.append("# Task\n" + _instruction(ask))
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(parts)}]


def _instruction(ask: Ask) -> str:
    if ask.operator is Operator.FRESH or ask.parent is None:
        return "Write the fastest correct kernel you can."
    if ask.operator is Operator.CROSS and ask.other is not None:
        return "Write a kernel that joins the strengths of the two kernels above and is faster than both."
    if ask.operator is Operator.REPAIR:
        return (
            "The kernel above failed as shown. Fix it so that it is correct, and keep it fast: keep its idea unless "
            "the idea is what is wrong. Start the reply with one sentence that says what was wrong."
        )
    return (
        "Change the kernel above so that it runs faster and stays correct. Start the reply with one sentence that says "
        "what you change and why."
    )


def device_facts(facts: Mapping[str, Any]) -> str:
    """The GPU in words: what bounds a kernel's speed. Measured figures have two digits, alike on machines of a type."""
    wanted = {
        "gpu": "name", "compute_capability": "compute capability", "sm_count": "streaming multiprocessors",
        "l2_bytes": "L2 bytes", "shared_bytes_per_block": "largest shared memory per block, bytes",
        "copy_bandwidth_gbs": "measured copy bandwidth, GB/s", "matmul_peak_tflops": "measured bf16 matmul, TFLOP/s",
    }  # fmt: skip
    shown = {name: facts[name] for name in wanted if facts.get(name) is not None}
    for name in MEASURED & shown.keys():
        shown[name] = two_digits(shown[name])
    return "\n".join(f"{wanted[name]}: {value}" for name, value in shown.items())


def two_digits(value: float) -> str:
    """A number rounded to two significant digits, written out."""
    return f"{float(f'{value:.1e}'):g}"


def _kernel(name: str, node: Node) -> str:
    return f"# {name}\n```python\n{node.source.rstrip()}\n```\n{feedback(node)}"


def feedback(node: Node) -> str:
    """How a kernel measured, workload by workload, against the reference and the roofline."""
    outcome = node.outcome
    if outcome is None:
        return "It was not measured."
    if outcome.speedup is None:
        return _failure(outcome)
    lines = [f"Measured: {outcome.speedup:.3f} times as fast as PyTorch over all workloads."]
    for figure in outcome.workloads:
        if figure.runtime_us is None or figure.speedup is None:
            continue
        line = f"- {figure.workload}: {figure.runtime_us:.2f} us, {figure.speedup:.3f} times as fast as PyTorch"
        if figure.floor_us:
            line += (
                f", roofline floor {figure.floor_us:.2f} us ({figure.floor_us / figure.runtime_us:.0%} of it reached)"
            )
        lines.append(line)
    return "\n".join(lines)


def _failure(outcome: KernelOutcome) -> str:
    lines = [f"It failed: {outcome.status.value}."]
    if len({figure.status for figure in outcome.workloads}) > 1:
        lines += [f"- {figure.workload}: {figure.status}" for figure in outcome.workloads]
    if outcome.error:
        lines.append(f"```\n{shortened(outcome.error)}\n```")
    return "\n".join(lines)


def shortened(text: str, longest: int = LONGEST_ERROR) -> str:
    """A text's beginning and end: compilers name the cause first, tracebacks last."""
    text = text.strip()
    if len(text) <= longest:
        return text
    head, tail = text[: longest * 2 // 3], text[-longest // 3 :]
    return f"{head}\n[{len(text) - len(head) - len(tail)} characters left out]\n{tail}"
