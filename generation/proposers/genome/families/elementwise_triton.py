"""Triton kernels for activations, gated units and rotary embeddings: one pass over memory, walked in several ways."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.activation_forms import GATES, TRITON, body, forms
from kbench.generation.proposers.genome.families.templated import TRITON_HEAD, pick, shape
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.schemas import Backend

WALKS = ("blocks", "unrolled", "strided", "chunk", "coarse", "tile", "rows")
LOADS = {
    "plain": "", "ca": ', cache_modifier=".ca"', "cg": ', cache_modifier=".cg"',
    "first": ', eviction_policy="evict_first"', "last": ', eviction_policy="evict_last"',
}  # fmt: skip
STORES = {
    "plain": "", "cs": ', cache_modifier=".cs"', "cg": ', cache_modifier=".cg"',
    "first": ', eviction_policy="evict_first"',
}  # fmt: skip

# Each step gets the index i of a work item (also as row r and column c of `width`) and whether it exists, m.
UNARY = """
v = tl.load(x_ptr + i, mask=m${load})
tl.store(y_ptr + i, activation(v), mask=m${store})
"""
GATED_PAIR = """
v = tl.load(gate_ptr + i, mask=m${load}).to(tl.float32)
u = tl.load(up_ptr + i, mask=m${load}).to(tl.float32)
tl.store(y_ptr + i, (activation(v) * u).to(tl.bfloat16), mask=m${store})
"""
GATED_HALVES = """
a = i + r * width
v = tl.load(x_ptr + a, mask=m${load}).to(tl.float32)
u = tl.load(x_ptr + a + width, mask=m${load}).to(tl.float32)
tl.store(y_ptr + i, (activation(v) * u).to(tl.bfloat16), mask=m${store})
"""
ROTATE_PAIRS = """
a = i + r * width
t = ((r // heads) % length) * width + c
first = tl.load(x_ptr + a, mask=m${load}).to(tl.float32)
second = tl.load(x_ptr + a + width, mask=m${load}).to(tl.float32)
cosine = tl.load(cos_ptr + t, mask=m)
sine = tl.load(sin_ptr + t, mask=m)
tl.store(y_ptr + a, (first * cosine - second * sine).to(tl.bfloat16), mask=m${store})
tl.store(y_ptr + a + width, (second * cosine + first * sine).to(tl.bfloat16), mask=m${store})
"""
ROTATE_SINGLES = """
half = width // 2
left = c < half
t = ((r // heads) % length) * half + tl.where(left, c, c - half)
own = tl.load(x_ptr + i, mask=m${load}).to(tl.float32)
other = tl.load(x_ptr + tl.where(left, i + half, i - half), mask=m${load}).to(tl.float32)
cosine = tl.load(cos_ptr + t, mask=m)
sine = tl.load(sin_ptr + t, mask=m)
tl.store(y_ptr + i, (own * cosine + tl.where(left, -other, other) * sine).to(tl.bfloat16), mask=m${store})
"""
STEPS = {"swiglu": GATED_HALVES, "geglu": GATED_PAIR}
POINTERS = {"swiglu": "x_ptr", "geglu": "gate_ptr, up_ptr", "rope": "x_ptr, cos_ptr, sin_ptr"}
ARGUMENTS = {"swiglu": "x", "geglu": "gate, up", "rope": "x, cos, sin"}

KERNEL = """
%% if activation
@triton.jit
def activation(v):
${activation}


%% endif
@triton.jit
def kernel(${pointers}, y_ptr, n, width, heads, length, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
%% if walk == "blocks"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
${step4}
%% elif walk == "unrolled"
    base = tl.program_id(0) * (BLOCK * UNROLL)
    for k in tl.static_range(UNROLL):
        i = base + k * BLOCK + tl.arange(0, BLOCK)
        m = i < n
${step8}
%% elif walk == "strided"
    for start in tl.range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=${stages}):
        i = start + tl.arange(0, BLOCK)
        m = i < n
${step8}
%% elif walk == "chunk"
    share = tl.cdiv(tl.cdiv(n, tl.num_programs(0)), BLOCK) * BLOCK
    begin = tl.program_id(0) * share
    end = tl.minimum(begin + share, n)
    for start in tl.range(begin, end, BLOCK, num_stages=${stages}):
        i = start + tl.arange(0, BLOCK)
        m = i < end
${step8}
%% elif walk == "coarse"
    base = tl.program_id(0) * (BLOCK * UNROLL) + tl.arange(0, BLOCK) * UNROLL
    for k in tl.static_range(UNROLL):
        i = base + k
        m = i < n
${step8}
%% elif walk == "tile"
    rows = tl.program_id(0) * UNROLL + tl.arange(0, UNROLL)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    r = rows[:, None]
    c = cols[None, :]
    i = r * width + c
    m = (r < n // width) & (c < width)
${step4}
%% else
    r = tl.program_id(0)
    for start in tl.range(0, width, BLOCK, num_stages=${stages}):
        c = start + tl.arange(0, BLOCK)
        i = r * width + c
        m = c < width
${step8}
%% endif


def run(${arguments}):
%% if problem == "swiglu"
    width = x.shape[1] // 2
    y = torch.empty((x.shape[0], width), dtype=x.dtype, device=x.device)
    n, heads, length = y.numel(), 1, 1
%% elif problem == "geglu"
    y = torch.empty_like(gate)
    n, width, heads, length = y.numel(), gate.shape[1], 1, 1
%% elif problem == "rope"
    y = torch.empty_like(x)
    length, heads = x.shape[1], x.shape[2]
    n, width = x.numel()${" // 2" if pairs else ""}, x.shape[3]${" // 2" if pairs else ""}
%% else
    y = torch.empty_like(x)
    n, width, heads, length = x.numel(), x.shape[1], 1, 1
%% endif
%% if walk in ("blocks",)
    grid = (triton.cdiv(n, ${block}),)
%% elif walk in ("unrolled", "coarse")
    grid = (triton.cdiv(n, ${block * unroll}),)
%% elif walk in ("strided", "chunk")
    processors = torch.cuda.get_device_properties(y.device).multi_processor_count if y.is_cuda else 4
    grid = (min(triton.cdiv(n, ${block}), processors * ${per_sm}),)
%% elif walk == "tile"
    grid = (triton.cdiv(n // width, ${unroll}), triton.cdiv(width, ${block}))
%% else
    grid = (n // width,)
%% endif
    kernel[grid](${arguments}, y, n, width, heads, length, BLOCK=${block}, UNROLL=${unroll}, num_warps=${warps})
    return y
"""

PROBLEMS = (*TRITON, *GATES, "rope")


def genes(problem_id: str) -> tuple[Gene, ...]:
    """Walk and form change the code; the rest its numbers and hints."""
    return (
        shape("walk", *(walk for walk in WALKS if problem_id != "rope" or walk != "rows")),
        shape("form", *(("pairs", "singles") if problem_id == "rope" else forms(TRITON, problem_id))),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("block", *((64, 128) if problem_id == "rope" else ()), 256, 512, 1024, 2048, 4096),
        pick("unroll", 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8, 16),
        pick("stages", 1, 2, 4),
        pick("warps", 1, 2, 4, 8, 16),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Lanes without work, or more elements a lane than registers hold."""
    held = int(genome["block"]) * (int(genome["unroll"]) if genome["walk"] == "tile" else 1)
    lanes = 32 * int(genome["warps"])
    if held < lanes:
        return "fewer elements than lanes"
    if held > 32 * lanes:
        return "more than 32 elements a lane"
    if genome["walk"] in ("strided", "chunk") and int(genome["per_sm"]) * int(genome["warps"]) > 64:
        return "more programs than fit"
    if problem_id == "rope" and genome["walk"] in ("strided", "chunk") and held * int(genome["stages"]) > 8192:
        return "stages need more than 96 KiB of shared memory"
    if problem_id == "rope" and genome["walk"] == "tile" and int(genome["block"]) > 256:
        return "tiles wider than a head"
    return None


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    pairs = genome["form"] != "singles"
    step = STEPS.get(problem_id, UNARY)
    if problem_id == "rope":
        step = ROTATE_PAIRS if pairs else ROTATE_SINGLES
    step = render(step, load=LOADS[str(genome["load"])], store=STORES[str(genome["store"])]).rstrip()
    flat = genome["walk"] not in ("tile", "rows")
    if flat and problem_id in ("swiglu", "rope"):
        step = "r = i // width\n" + ("c = i % width\n" if problem_id == "rope" else "") + step
    return TRITON_HEAD + render(
        KERNEL,
        problem=problem_id,
        activation=body(TRITON, problem_id, str(genome["form"])) if problem_id != "rope" else "",
        pointers=POINTERS.get(problem_id, "x_ptr"),
        arguments=ARGUMENTS.get(problem_id, "x"),
        step4=indented(step, 4),
        step8=indented(step, 8),
        pairs=pairs,
        **{name: genome[name] for name in ("walk", "block", "unroll", "per_sm", "stages", "warps")},
    )


def indented(code: str, spaces: int) -> str:
    """Every line further right."""
    return "\n".join(" " * spaces + line for line in code.split("\n"))


FAMILIES = (
    Family(
        name="elementwise_triton",
        backend=Backend.TRITON,
        problems=PROBLEMS,
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
