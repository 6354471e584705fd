"""The same kernels by this harness and by the path KernelBench takes. Usage: kernelbench_path.py OUT

The other path: a CUDA kernel is a torch extension compiled by load_inline when it is imported; a Triton kernel is
compiled at its first call; five correctness trials against the reference; a hundred trials timed one by one with CUDA
events and a synchronisation each. Each kernel is measured once by both paths in this run, with nothing cached.
Writes kernelbench_path.json.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pool import make_harness, out_folder, say, write

from kbench.schemas import Backend, KernelSource, to_dict

BODIES = {
    "scalar": """
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = gelu(x[i]);""",
    "strided": """
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
        y[i] = gelu(x[i]);""",
}
DEVICE = """
__device__ __forceinline__ float gelu(float v) {
    return 0.5f * v * (1.0f + tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v)));
}
extern "C" __global__ void f(const float* x, float* y, long long n) {%s
}
"""
TRITON = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, BLOCK),)](x, y, n, block=BLOCK, num_warps=WARPS)
    return y
"""
NATIVE = '''import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""DEVICE""")


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    module.launch("f", grid=min((n + 255) // 256, 2147483647), block=256, args=(x, y, n))
    return y
'''


def extension(device: str, name: str) -> Callable[..., Any]:
    """The kernel as KernelBench submissions have it."""
    from torch.utils.cpp_extension import load_inline

    host = """
    torch::Tensor run(torch::Tensor x) {
        auto y = torch::empty_like(x);
        long long n = x.numel();
        f<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
        return y;
    }"""
    built = load_inline(
        name=name, cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=device + host, functions=["run"]
    )
    return built.run


def other_path(make: Callable[[], Callable[..., Any]]) -> dict[str, float]:
    """Build, five correctness trials, a hundred timed trials."""
    import torch

    began = time.perf_counter()
    run = make()
    built = time.perf_counter()
    x = torch.randn(4096, 8192, device="cuda") * 2
    for seed in range(5):
        torch.manual_seed(seed)
        x = torch.randn(4096, 8192, device="cuda") * 2
        want = torch.nn.functional.gelu(x, approximate="tanh")
        if not torch.allclose(run(x), want, atol=1e-2, rtol=1e-2):
            raise RuntimeError("the kernel is wrong")
        torch.cuda.synchronize()
    checked = time.perf_counter()
    for _ in range(3):
        run(x)
    torch.cuda.synchronize()
    times = []
    for _ in range(100):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run(x)
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * start.elapsed_time(end))
    done = time.perf_counter()
    return {
        "build_s": built - began, "verify_s": checked - built, "time_s": done - checked, "total_s": done - began,
        "mean_us": statistics.fmean(times), "std_us": statistics.stdev(times),
    }  # fmt: skip


def triton_maker(source: str, folder: Path, name: str) -> Callable[[], Callable[..., Any]]:
    """Imports a Triton kernel from a file, as it would be from a submission."""

    def make() -> Callable[..., Any]:
        import importlib.util

        path = folder / f"{name}.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        run: Callable[..., Any] = module.run
        return run

    return make


def main() -> None:
    import torch

    folder = out_folder()
    place = Path(tempfile.mkdtemp())
    os.environ["TORCH_EXTENSIONS_DIR"] = str(place / "extensions")
    os.environ["TRITON_CACHE_DIR"] = str(place / "triton")
    major, minor = torch.cuda.get_device_capability()
    os.environ["TORCH_CUDA_ARCH_LIST"] = f"{major}.{minor}"
    kernels: dict[str, KernelSource] = {}
    makers: dict[str, Callable[[], Callable[..., Any]]] = {}
    for name, body in BODIES.items():
        device = DEVICE % body
        kernels[f"cuda_{name}"] = KernelSource("gelu_tanh", Backend.CUDA, NATIVE.replace("DEVICE", device))
        makers[f"cuda_{name}"] = lambda device=device, name=name: extension(device, f"gelu_{name}")
    for block, warps in ((256, 4), (512, 4), (1024, 4), (1024, 8), (2048, 8), (4096, 8)):
        source = TRITON.replace("BLOCK", str(block)).replace("WARPS", str(warps))
        name = f"triton_{block}_{warps}"
        kernels[name] = KernelSource("gelu_tanh", Backend.TRITON, source)
        makers[name] = triton_maker(source, place, name)
    with make_harness(cache=place / "cache", second_clock_share=0.0) as harness:
        environment = to_dict(harness.environment())
        began = time.perf_counter()
        ours = {m.kernel_id: m for m in harness.measure(kernels.values())}
        our_total = time.perf_counter() - began
    say(f"this harness: {len(kernels)} kernels in {our_total:.2f} s")
    rows = []
    for name, kernel in kernels.items():
        mine, theirs = ours[kernel.kernel_id], other_path(makers[name])
        row = {"name": name, "status": mine.status.value, "runtime_us": mine.runtime_us, "low_us": mine.runtime_low_us,
               "high_us": mine.runtime_high_us, "build_s": mine.build_s, "verify_s": mine.verify_s,
               "time_s": mine.time_s, "other": theirs}  # fmt: skip
        rows.append(row)
        say(str(row))
    write(
        folder,
        "kernelbench_path.json",
        {
            "environment": environment,
            "kernels": len(kernels),
            "this_harness_total_s": our_total,
            "other_total_s": sum(row["other"]["total_s"] for row in rows),
            "rows": rows,
        },
    )


if __name__ == "__main__":
    main()
