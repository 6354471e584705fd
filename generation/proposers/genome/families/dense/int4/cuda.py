"""CUDA kernels of the product with 4-bit weights: tensor cores or plain lanes, and how nibbles become numbers."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render as fill
from kbench.schemas import Backend

MMA_GENES = (
    Gene("decode", ("magic", "convert", "table"), structural=True),
    Gene("scaled", ("weights", "sums"), structural=True),
    Gene("x_from", ("global", "shared"), structural=True),
    Gene("split_k", (1, 2, 4, 8), structural=True),
    Gene("hint", ("plain", "streaming"), structural=True),
    Gene("warps_k", (1, 2, 4, 8), structural=True),
    Gene("warps_n", (1, 2, 4)),
    Gene("tiles", (1, 2, 4)),
)
LANE_GENES = (
    Gene("x_from", ("global", "shared"), structural=True),
    Gene("rows", ("halves", "floats"), structural=True),
    Gene("split_k", (1, 2, 4, 8), structural=True),
    Gene("hint", ("plain", "streaming"), structural=True),
    Gene("zero", ("weights", "folded"), structural=True),
    Gene("warps", (2, 4, 8)),
    Gene("outputs", (1, 2, 4)),
)


def mma_genes(problem_id: str) -> tuple[Gene, ...]:
    """Genes of the tensor-core kernels."""
    return MMA_GENES


def lane_genes(problem_id: str) -> tuple[Gene, ...]:
    """Genes of the kernels without tensor cores."""
    return LANE_GENES


def mma_invalid(problem_id: str, genome: Genome) -> str | None:
    """Bound the block and its shared memory."""
    warps = int(genome["warps_k"]) * int(genome["warps_n"])
    if not 2 <= warps <= 16:
        return "too few or too many warps"
    columns = int(genome["warps_n"]) * int(genome["tiles"]) * 8
    joined = int(genome["warps_k"]) * 16 * columns * 4 if genome["warps_k"] != 1 else 0
    staged = 16 * (int(genome["warps_k"]) * 128 + 8) * 2 if genome["x_from"] == "shared" else 0
    return "too much static shared memory" if joined + staged + 1024 > 48 * 1024 else None


def lane_invalid(problem_id: str, genome: Genome) -> str | None:
    """Only staged rows can be widened on the way."""
    if genome["x_from"] == "global" and genome["rows"] == "floats":
        return "rows read from device memory stay halves"
    return None


def render_mma(problem_id: str, genome: Genome) -> str:
    """Source of a tensor-core kernel."""
    warps = int(genome["warps_k"]) * int(genome["warps_n"])
    return _render("dense/int4/templates/mma.cu", genome, 32 * warps, int(genome["warps_n"]) * int(genome["tiles"]) * 8)


def render_lanes(problem_id: str, genome: Genome) -> str:
    """Source of a kernel without tensor cores."""
    return _render(
        "dense/int4/templates/lanes.cu",
        genome,
        32 * int(genome["warps"]),
        int(genome["warps"]) * int(genome["outputs"]),
    )


def _render(device: str, genome: Genome, threads: int, columns: int) -> str:
    load = "__ldcs" if genome["hint"] == "streaming" else "__ldg"
    parts = genome["split_k"] != 1
    staged = "xs[r][lane * 8 + e]"
    values = {
        **genome,
        "device": device,
        "threads": threads,
        "columns": columns,
        "load": load,
        "operands": "float16",
        "kind": "float" if parts else "__half",
        "at": ("(size_t)blockIdx.z * M * N + " if parts else "") + "(size_t)m * N + n",
        "finish": lambda value: value if parts else f"__float2half({value})",
        "staged": f"__half2float({staged})" if genome.get("rows") == "halves" else staged,
    }
    return fill("dense/int4/templates/cuda.py", **values)


FAMILIES = (
    Family(
        name="int4_cuda_mma",
        backend=Backend.CUDA,
        problems=("int4_weight_gemm",),
        genes=mma_genes,
        render=render_mma,
        invalid=mma_invalid,
    ),
    Family(
        name="int4_cuda_lanes",
        backend=Backend.CUDA,
        problems=("int4_weight_gemm",),
        genes=lane_genes,
        render=render_lanes,
        invalid=lane_invalid,
    ),
)
