"""CUDA kernels that scale a matrix by one number or by one number a row: pure memory traffic."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render as fill
from kbench.schemas import Backend

GENES = (
    Gene("walk", ("flat", "flat_stride", "row", "row_warp", "tile"), structural=True),
    Gene("order", ("adjacent", "blocked"), structural=True),
    Gene("batch", ("one", "all_loads_first"), structural=True),
    Gene("load", ("plain", "ldg", "ldcs", "ldcg"), structural=True),
    Gene("store", ("plain", "stcs", "stcg", "stwt"), structural=True),
    Gene("vector", (1, 2, 4)),
    Gene("items", (1, 2, 4, 8)),
    Gene("programs", (264, 1056, 4224)),
    Gene("threads", (64, 128, 256, 512, 1024)),
)

TEMPLATE = r'''
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
constexpr int VEC = ${vector}, ITEMS = ${items}, THREADS = ${threads};
typedef ${kind} chunk;

__device__ __forceinline__ chunk times(chunk v, float s) {
%% if vector == 1
    return v * s;
%% elif vector == 2
    return make_float2(v.x * s, v.y * s);
%% else
    return make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
%% endif
}

extern "C" __global__ void __launch_bounds__(THREADS) scale(
    const float* a, ${factor}, float* c, int rows, int columns) {
    const chunk* in = (const chunk*)a;
    chunk* out = (chunk*)c;
    const int width = columns / VEC;
%% if walk in ("flat", "flat_stride")
    const long long size = (long long)rows * width;
%% if walk == "flat_stride"
    const long long stride = (long long)gridDim.x * THREADS * ITEMS;
    for (long long first = (long long)blockIdx.x * THREADS * ITEMS; first < size; first += stride) {
%% else
    const long long first = (long long)blockIdx.x * THREADS * ITEMS;
    {
%% endif
        const long long base = first + ${own};
        const int step = ${"THREADS" if order == "adjacent" else "1"};
${body("size", "i", "d[i / width]")}
    }
%% elif walk == "row"
    const int row = blockIdx.x;
    const long long start = (long long)row * width;
%% if diagonal
    const float s = d[row];
%% endif
    for (int first = 0; first < width; first += THREADS * ITEMS) {
        const long long base = first + ${own};
        const int step = ${"THREADS" if order == "adjacent" else "1"};
${body("width", "start + i", "s")}
    }
%% elif walk == "row_warp"
    const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const long long start = (long long)row * width;
%% if diagonal
    const float s = d[row];
%% endif
    for (int first = 0; first < width; first += 32 * ITEMS) {
        const long long base = first + ${"lane" if order == "adjacent" else "lane * ITEMS"};
        const int step = ${"32" if order == "adjacent" else "1"};
${body("width", "start + i", "s")}
    }
%% else
    const int row = blockIdx.y;
    const long long start = (long long)row * width;
%% if diagonal
    const float s = d[row];
%% endif
    const long long base = (long long)blockIdx.x * THREADS * ITEMS + ${own};
    const int step = ${"THREADS" if order == "adjacent" else "1"};
${body("width", "start + i", "s")}
%% endif
}
""")


%% if diagonal
def run(d, a):
    s = d
%% else
def run(a, s):
    s = float(s)
%% endif
    out = torch.empty_like(a)
    rows, columns = a.shape
%% if walk in ("flat", "flat_stride")
    blocks = (a.numel() // ${vector} + ${threads * items - 1}) // ${threads * items}
    grid = ${"min(blocks, %d)" % programs if walk == "flat_stride" else "blocks"}
%% elif walk == "row"
    grid = rows
%% elif walk == "row_warp"
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% else
    grid = ((columns // ${vector} + ${threads * items - 1}) // ${threads * items}, rows)
%% endif
    module.launch("scale", grid=grid, block=${threads}, args=(a, s, out, rows, columns))
    return out
'''

LEAST_AHEAD = 132 * 1024
"""Elements a strided grid must have in flight, or memory latency makes it tens of times slower than the rest."""
LOADS = {"plain": "in[{at}]", "ldg": "__ldg(in + {at})", "ldcs": "__ldcs(in + {at})", "ldcg": "__ldcg(in + {at})"}
STORES = {
    "plain": "out[{at}] = {v};",
    "stcs": "__stcs(out + {at}, {v});",
    "stcg": "__stcg(out + {at}, {v});",
    "stwt": "__stwt(out + {at}, {v});",
}


def genes(problem_id: str) -> tuple[Gene, ...]:
    """The same for both problems."""
    return GENES


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Drop genes without effect."""
    if genome["walk"] != "flat_stride" and genome["programs"] != 264:
        return "only strided walks choose the number of blocks"
    ahead = int(genome["programs"]) * int(genome["threads"]) * int(genome["items"]) * int(genome["vector"])
    if genome["walk"] == "flat_stride" and ahead < LEAST_AHEAD:
        return "too few elements in flight"
    if genome["items"] == 1 and (genome["order"], genome["batch"]) != ("adjacent", "one"):
        return "one item has no order"
    return None


def _body(genome: Genome, diagonal: bool, limit: str, at: str, factor: str) -> str:
    """Load, scale and store a thread's items, one at a time or all loads first."""
    load, store = LOADS[str(genome["load"])].format(at=at), STORES[str(genome["store"])]
    scaled = factor if diagonal else "s"
    index = "const long long i = base + (long long)u * step;"
    if genome["batch"] == "one":
        lines = [
            "#pragma unroll",
            f"for (int u = 0; u < ITEMS; ++u) {{ {index}",
            f"    if (i < {limit}) {store.format(at=at, v=f'times({load}, {scaled})')}",
            "}",
        ]
    else:
        lines = [
            "chunk held[ITEMS];",
            "#pragma unroll",
            f"for (int u = 0; u < ITEMS; ++u) {{ {index} if (i < {limit}) held[u] = {load}; }}",
            "#pragma unroll",
            f"for (int u = 0; u < ITEMS; ++u) {{ {index}",
            f"    if (i < {limit}) {store.format(at=at, v=f'times(held[u], {scaled})')}",
            "}",
        ]
    return "\n".join(f"        {line}" for line in lines)


def render(problem_id: str, genome: Genome) -> str:
    """The kernel's source."""
    diagonal = problem_id == "matmul_diagonal"
    values = {
        **genome,
        "diagonal": diagonal,
        "factor": "const float* d" if diagonal else "float s",
        "own": "threadIdx.x" if genome["order"] == "adjacent" else "threadIdx.x * ITEMS",
        "kind": {1: "float", 2: "float2", 4: "float4"}[int(genome["vector"])],
        "body": lambda limit, at, factor: _body(genome, diagonal, limit, at, factor),
    }
    return fill(TEMPLATE, **values)


FAMILY = Family(
    name="scaling_cuda",
    backend=Backend.CUDA,
    problems=("matmul_scalar", "matmul_diagonal"),
    genes=genes,
    render=render,
    invalid=invalid,
)
