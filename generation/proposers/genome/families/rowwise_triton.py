"""Triton kernels that normalise contiguous rows: softmax, log-softmax, L2, RMS with residual, instance, group norm."""

from __future__ import annotations

from collections.abc import Mapping

from kbench.generation.proposers.genome.families.elementwise_triton import LOADS, STORES, indented
from kbench.generation.proposers.genome.families.row_norms import LONGEST, STATISTICS
from kbench.generation.proposers.genome.families.templated import TRITON_HEAD, pick, shape
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.schemas import Backend

PLANS = ("whole", "lanes", "scalar", "passes", "split")
EXPONENTIALS = {"e": "tl.exp(d)", "two": "tl.exp2(d * 1.4426950408889634)"}

LOAD = """
%% if problem == "rmsnorm_residual"
h = tl.load(x_ptr + o, mask=m, other=0.0${hint}).to(tl.float32)
h = (h + tl.load(residual_ptr + o, mask=m, other=0.0${hint}).to(tl.float32)).to(tl.bfloat16)
%% if keep
tl.store(hidden_ptr + o, h, mask=m)
%% endif
v = h.to(tl.float32)
%% else
v = tl.load(x_ptr + o, mask=m, other=${"-1.0e30" if statistics == "lse" else "0.0"}${hint})
%% endif
"""
WRITE = """
%% if problem == "softmax"
y = expo(v - top) * factor
%% elif problem == "log_softmax"
y = v - shift
%% elif problem == "l2_norm"
y = v * factor
%% elif problem == "rmsnorm_residual"
w = tl.load(weight_ptr + c, mask=c < cols, other=0.0).to(tl.float32)
y = (v * factor * w).to(tl.bfloat16)
%% elif problem == "instance_norm"
y = (v - mean) * factor
%% else
channel = (row % groups) * per_group + c // plane
w = tl.load(weight_ptr + channel, mask=m, other=0.0)
b = tl.load(bias_ptr + channel, mask=m, other=0.0)
y = (v - mean) * factor * w + b
%% endif
tl.store(y_ptr + o, y, mask=m${store})
"""
FINISH = """
%% if problem == "softmax"
factor = 1.0 / total
%% elif problem == "log_softmax"
shift = top + tl.log(total)
%% elif problem == "l2_norm"
factor = 1.0 / tl.sqrt(total)
%% elif problem == "rmsnorm_residual"
factor = tl.rsqrt(total / cols + 1e-6)
%% else
factor = tl.rsqrt(spread / cols + 1e-5)
%% endif
"""
WHOLE = """
%% if statistics == "lse"
top = ${reduce("max", "v")}
total = ${reduce("sum", "expo(v - top)")}
%% elif statistics == "squares"
total = ${reduce("sum", "v * v")}
%% else
mean = ${reduce("sum", "v")} / cols
d = tl.where(m, v - mean, 0.0)
spread = ${reduce("sum", "d * d")}
%% endif
"""
BEGIN = """
%% if plan == "lanes"
%% set zero = "tl.zeros(" + form + ", tl.float32)"
%% set low = "tl.full(" + form + ", -1.0e30, tl.float32)"
%% else
%% set zero = "0.0" if rows == 1 else "tl.zeros([ROWS, 1], tl.float32)"
%% set low = "-1.0e30" if rows == 1 else "tl.full([ROWS, 1], -1.0e30, tl.float32)"
%% endif
%% if statistics == "lse"
high = ${low}
%% endif
first = ${zero}
%% if statistics == "moments"
second = ${zero}
%% endif
"""
UPDATE = """
%% if statistics == "lse" and plan == "lanes"
larger = tl.maximum(high, v)
first = first * expo(high - larger) + expo(v - larger)
high = larger
%% elif statistics == "lse"
larger = tl.maximum(high, ${reduce("max", "v")})
first = first * expo(high - larger) + ${reduce("sum", "expo(v - larger)")}
high = larger
%% elif statistics == "squares"
first += ${"v * v" if plan == "lanes" else reduce("sum", "v * v")}
%% else
first += ${"v" if plan == "lanes" else reduce("sum", "v")}
second += ${"v * v" if plan == "lanes" else reduce("sum", "v * v")}
%% endif
"""
COMBINE = """
%% if statistics == "lse" and plan == "lanes"
top = ${reduce("max", "high")}
total = ${reduce("sum", "first * expo(high - top)")}
%% elif statistics == "lse"
top = high
total = first
%% elif statistics == "squares"
total = ${reduce("sum", "first") if plan == "lanes" else "first"}
%% else
mean = ${reduce("sum", "first") if plan == "lanes" else "first"} / cols
spread = ${reduce("sum", "second") if plan == "lanes" else "second"} - mean * mean * cols
%% endif
"""

KERNEL = """
@triton.jit
def expo(d):
    return ${expression}


%% set groups = ", per_group, plane, groups" if problem == "group_norm" else ""
%% macro where(indent, start)
${indent}c = ${start}${"tl.arange(0, BLOCK)" if rows == 1 else "tl.arange(0, BLOCK)[None, :]"}
${indent}m = ${"c < cols" if rows == 1 else "(row < rows) & (c < cols)"}
${indent}o = row * cols + c
%% endmacro
%% if plan != "split"
@triton.jit
def kernel(${pointers}, rows, cols${groups}, BLOCK: tl.constexpr, ROWS: tl.constexpr):
%% set sweep = "tl.range(0, cols, BLOCK, num_stages=" ~ stages ~ ")"
%% if schedule == "persistent"
    for item in tl.range(tl.program_id(0), ${"rows" if rows == 1 else "tl.cdiv(rows, ROWS)"}, tl.num_programs(0)):
        row = ${"item" if rows == 1 else "item * ROWS + tl.arange(0, ROWS)[:, None]"}
%% set tab = "        "
%% else
    row = ${"tl.program_id(0)" if rows == 1 else "tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]"}
%% set tab = "    "
%% endif
%% if plan == "whole"
${where(tab, "")}
${indent(load_keep, tab)}
${indent(whole, tab)}
${indent(finish, tab)}
${indent(write, tab)}
%% elif plan == "passes"
${passes(tab)}
%% else
${indent(begin, tab)}
${tab}for start in ${sweep}:
${where(tab + "    ", "start + ")}
${indent(load_keep, tab + "    ")}
${indent(update, tab + "    ")}
${indent(combine, tab)}
${indent(finish, tab)}
%% if order == "backward"
${tab}for back in ${sweep}:
${tab}    start = (tl.cdiv(cols, BLOCK) - 1) * BLOCK - back
%% else
${tab}for start in ${sweep}:
%% endif
${where(tab + "    ", "start + ")}
${indent(load, tab + "    ")}
${indent(write, tab + "    ")}
%% endif
%% else
@triton.jit
def measure(${pointers}, one_ptr, two_ptr, rows, cols${groups}, share, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    end = tl.minimum(part * share + share, cols)
${indent(begin, "    ")}
    for start in tl.range(part * share, end, BLOCK, num_stages=${stages}):
        c = start + tl.arange(0, BLOCK)
        m = c < end
        o = row * cols + c
${indent(load_keep, "        ")}
${indent(update, "        ")}
%% if statistics == "lse"
    top = tl.max(high, axis=0)
    tl.store(one_ptr + row * SPLIT + part, top)
    tl.store(two_ptr + row * SPLIT + part, tl.sum(first * expo(high - top), axis=0))
%% else
    tl.store(one_ptr + row * SPLIT + part, tl.sum(first, axis=0))
%% if statistics == "moments"
    tl.store(two_ptr + row * SPLIT + part, tl.sum(second, axis=0))
%% endif
%% endif


@triton.jit
def apply(${pointers}, one_ptr, two_ptr, rows, cols${groups}, share, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    parts = row * SPLIT + tl.arange(0, SPLIT)
    one = tl.load(one_ptr + parts)
%% if statistics == "lse"
    top = tl.max(one, axis=0)
    total = tl.sum(tl.load(two_ptr + parts) * expo(one - top), axis=0)
%% elif statistics == "squares"
    total = tl.sum(one, axis=0)
%% else
    mean = tl.sum(one, axis=0) / cols
    spread = tl.sum(tl.load(two_ptr + parts), axis=0) - mean * mean * cols
%% endif
${indent(finish, "    ")}
    end = tl.minimum(part * share + share, cols)
    for start in tl.range(part * share, end, BLOCK, num_stages=${stages}):
        c = start + tl.arange(0, BLOCK)
        m = c < end
        o = row * cols + c
${indent(reload, "        ")}
${indent(write, "        ")}
%% endif


def run(${arguments}):
    y = torch.empty_like(x)
%% if problem == "rmsnorm_residual"
    hidden = torch.empty_like(x)
    rows, cols = x.shape
%% elif problem == "instance_norm"
    rows, cols = x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]
%% elif problem == "group_norm"
    groups, plane = 8, x.shape[2] * x.shape[3]
    per_group = x.shape[1] // groups
    rows, cols = x.shape[0] * groups, per_group * plane
%% else
    rows, cols = x.shape
%% endif
%% set extra = ", per_group, plane, groups" if problem == "group_norm" else ""
%% if plan == "split"
    share = triton.cdiv(triton.cdiv(cols, ${split}), ${block}) * ${block}
    one = torch.empty((rows, ${split}), dtype=torch.float32, device=x.device)
    two = torch.empty_like(one)
    grid = (rows, ${split})
    measure[grid](${handed}, one, two, rows, cols${extra}, share, BLOCK=${block}, SPLIT=${split}, num_warps=${warps})
    apply[grid](${handed}, one, two, rows, cols${extra}, share, BLOCK=${block}, SPLIT=${split}, num_warps=${warps})
%% else
%% if schedule == "persistent"
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 4
    grid = (min(triton.cdiv(rows, ${rows}), processors * ${per_sm}),)
%% else
    grid = (triton.cdiv(rows, ${rows}),)
%% endif
%% set span = "triton.next_power_of_2(cols)" if plan == "whole" else block
    kernel[grid](${handed}, rows, cols${extra}, BLOCK=${span}, ROWS=${rows}, num_warps=${warps})
%% endif
    return ${"y, hidden" if problem == "rmsnorm_residual" else "y"}
"""

PASSES = """
%% macro sweep(code)
for start in tl.range(0, cols, BLOCK, num_stages=${stages}):
    c = start + ${"tl.arange(0, BLOCK)" if rows == 1 else "tl.arange(0, BLOCK)[None, :]"}
    m = ${"c < cols" if rows == 1 else "(row < rows) & (c < cols)"}
    o = row * cols + c
${code}
%% endmacro
%% if statistics == "lse"
high = tl.full(${form}, -1.0e30, tl.float32)
${sweep(load4 + "\\n    high = tl.maximum(high, v)")}
top = ${reduce("max", "high")}
first = tl.zeros(${form}, tl.float32)
${sweep(load4 + "\\n    first += expo(v - top)")}
total = ${reduce("sum", "first")}
%% elif statistics == "moments"
first = tl.zeros(${form}, tl.float32)
${sweep(load4 + "\\n    first += v")}
mean = ${reduce("sum", "first")} / cols
first = tl.zeros(${form}, tl.float32)
${sweep(load4 + "\\n    d = tl.where(m, v - mean, 0.0)\\n    first += d * d")}
spread = ${reduce("sum", "first")}
%% else
high = tl.zeros(${form}, tl.float32)
${sweep(keep4 + "\\n    high = tl.maximum(high, tl.abs(v))")}
peak = tl.maximum(${reduce("max", "high")}, 1e-20)
first = tl.zeros(${form}, tl.float32)
${sweep(load4 + "\\n    first += (v / peak) * (v / peak)")}
total = ${reduce("sum", "first")} * peak * peak
%% endif
${finish}
${sweep(write4)}
"""

POINTERS = {
    "rmsnorm_residual": ("x_ptr, residual_ptr, weight_ptr, y_ptr, hidden_ptr", "x, residual, weight"),
    "group_norm": ("x_ptr, weight_ptr, bias_ptr, y_ptr", "x, weight, bias"),
}
HANDED = {"rmsnorm_residual": "x, residual, weight, y, hidden", "group_norm": "x, weight, bias, y"}


STAGED_BYTES = {"rmsnorm_residual": 8, "group_norm": 12}
"""Bytes that a pipeline stage holds of each element, where that is not one float."""


def genes(problem_id: str) -> tuple[Gene, ...]:
    """Plan, rows at a time, schedule, order and exponential change the code."""
    longest = LONGEST[problem_id]
    return (
        shape("plan", *(PLANS if longest <= 65536 else PLANS[1:])),
        shape("rows", 1, 2, 4) if longest <= 16384 else shape("rows", 1),
        shape("schedule", "grid", "persistent"),
        shape("order", "forward", "backward"),
        shape("exponential", *(EXPONENTIALS if STATISTICS[problem_id] == "lse" else ("e",))),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("block", 512, 1024, 2048, 4096, 8192),
        pick("split", 2, 4, 8, 16, *((32, 64) if longest > 65536 else ())),
        pick("per_sm", 1, 2, 4, 8),
        pick("stages", 1, 2, 3),
        pick("warps", 2, 4, 8, 16, *((32,) if longest > 16384 else ())),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Lanes without work, more than registers hold, or too few threads to hide memory."""
    plan, rows, warps = genome["plan"], int(genome["rows"]), int(genome["warps"])
    held = rows * (LONGEST[problem_id] if plan == "whole" else int(genome["block"]))
    if held > 64 * 32 * warps:
        return "more than 64 elements a lane"
    if plan == "lanes" and STATISTICS[problem_id] == "lse" and held > 32 * 32 * warps:
        return "more than 32 running maxima and sums a lane"
    if held < 32 * warps:
        return "fewer elements than lanes"
    if plan != "whole" and held * STAGED_BYTES.get(problem_id, 4) * int(genome["stages"]) > 120 * 1024:
        return "stages need more than 120 KiB of shared memory"
    if genome["schedule"] == "persistent" and not 8 <= int(genome["per_sm"]) * warps <= 64:
        return "too few or too many warps on an SM"
    if plan == "split" and (rows > 1 or genome["schedule"] == "persistent" or genome["order"] == "backward"):
        return "split rows are neither tiled nor scheduled nor turned"
    if plan in ("whole", "passes") and genome["order"] == "backward":
        return "only a second pass can be turned"
    return None


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    rows, plan = int(genome["rows"]), str(genome["plan"])
    values = dict(genome) | {
        "problem": problem_id,
        "statistics": STATISTICS[problem_id],
        "plan": "lanes" if plan == "split" else plan,
        "form": "[BLOCK]" if rows == 1 else "[ROWS, BLOCK]",
        "reduce": lambda name, value: (
            f"tl.{name}({value}, axis=0)" if rows == 1 else f"tl.{name}({value}, axis=1)[:, None]"
        ),
        "hint": LOADS[str(genome["load"])],
        "store": STORES[str(genome["store"])],
    }
    pieces = {
        name: render(template, **values, keep=name == "load_keep").rstrip()
        for name, template in {
            "load": LOAD, "load_keep": LOAD, "write": WRITE, "finish": FINISH, "whole": WHOLE, "begin": BEGIN,
            "update": UPDATE, "combine": COMBINE,
        }.items()
    }  # fmt: skip
    pieces["reload"] = pieces["load"]
    if problem_id == "rmsnorm_residual":
        pieces["reload"] = "v = tl.load(hidden_ptr + o, mask=m, other=0.0).to(tl.float32)"
    pointers, arguments = POINTERS.get(problem_id, ("x_ptr, y_ptr", "x"))
    return TRITON_HEAD + tidy(
        render(
            KERNEL,
            **values | pieces | {"plan": plan},
            expression=EXPONENTIALS[str(genome["exponential"])],
            pointers=pointers,
            arguments=arguments,
            handed=HANDED.get(problem_id, "x, y"),
            indent=lambda code, tab: indented(code, len(tab)),
            passes=lambda tab: indented(_passes(values, pieces), len(tab)),
        )
    )


def _passes(values: Mapping[str, object], pieces: dict[str, str]) -> str:
    code = {f"{name}4": indented(pieces[source], 4) for name, source in (("load", "load"), ("keep", "load_keep"))}
    write = indented(pieces["load"] + "\n" + pieces["write"], 4)
    return render(PASSES, **values, **code, write4=write, finish=pieces["finish"]).rstrip()


def tidy(code: str) -> str:
    """Macros leave blank lines; functions get two before them and nothing else any."""
    lines = [line for line in code.split("\n") if line.strip()]
    spaced = [f"\n\n{line}" if line.startswith(("@", "def run")) and i else line for i, line in enumerate(lines)]
    return "\n".join(spaced) + "\n"


FAMILIES = (
    Family(
        name="rowwise_triton",
        backend=Backend.TRITON,
        problems=tuple(STATISTICS),
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
