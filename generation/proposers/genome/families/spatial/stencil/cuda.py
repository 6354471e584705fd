"""Stencils in CUDA: a thread per cell, staged tiles, and tiles that march along the slowest axis."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution.cuda_parts import HEADER, block, nested
from kbench.generation.proposers.genome.families.spatial.convolution.triton_parts import indent, nest
from kbench.generation.proposers.genome.families.spatial.stencil.form import FORMS, StencilForm, offset_name, sums
from kbench.generation.proposers.genome.families.spatial.stencil.triton import sizes
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.schemas import Backend

READS = {"plain": "*(p)", "ldg": "__ldg(p)"}


def place(form: StencilForm, axis: str = "", distance: int = 0) -> str:
    """Offset of a neighbour in the grid."""
    coordinates = [f"({a} + {distance})" if a == axis else a for a in form.axes]
    return nest(coordinates, sizes(form)).replace("+ -", "- ")


def read(form: StencilForm, axis: str, distance: int) -> str:
    """Text that reads a neighbour from memory, zero outside the grid."""
    inside = f"{axis} + {distance} < size_{axis}" if distance > 0 else f"{axis} >= {-distance}"
    return f"{inside} ? READ(u_in + {place(form, axis, distance)}) : 0.0f"


def answer(form: StencilForm, neighbours: dict[tuple[str, int], str], centre: str | None) -> list[str]:
    """From coordinates of an existing cell to the store."""
    lines = [] if centre is None else [f"const float u = {centre};"]
    lines += [f"const float {offset_name(*key)} = {text};" for key, text in neighbours.items()]
    lines += [f"const float {name} = {name}_in[{place(form)}];" for name in form.fields[1:]]
    lines += [f"const float {name} = {text};" for name, text in sums(form)]
    return [*lines, f"v[{place(form)}] = {form.result};"]


def direct_body(form: StencilForm, genome: Genome) -> list[str]:
    """A thread per cell, or several cells each, every neighbour read from memory."""
    cell = answer(form, {key: read(form, *key) for key in form.neighbours}, f"READ(u_in + {place(form)})")
    if genome["space"] == "flat":
        decode = ["const int w = i % size_w;", "const int h = i / size_w;"]
        if form.dimensions == 3:
            decode = [
                "const int w = i % size_w;",
                "const int h = i / size_w % size_h;",
                "const int d = i / (size_w * size_h);",
            ]
        head = f"for (int j = 0; j < {genome['each']}; ++j)"
        spot = f"const int i = (blockIdx.x * {genome['each']} + j) * blockDim.x + threadIdx.x;"
        return nested([f"#pragma unroll\n{head}"], [spot, *block("if (i < count)", [*decode, *cell])])
    if genome["space"] == "grid_stride":
        decode = ["const int w = i % size_w;", "const int h = i / size_w;"]
        if form.dimensions == 3:
            decode = [
                "const int w = i % size_w;",
                "const int h = i / size_w % size_h;",
                "const int d = i / (size_w * size_h);",
            ]
        return nested(
            ["for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)"],
            [*decode, *cell],
        )
    lines = ["const int w = blockIdx.x * TX + threadIdx.x % TX;"]
    if form.dimensions == 3:
        lines.append("const int d = blockIdx.z;")
    spot = f"const int h = (blockIdx.y * {genome['each']} + j) * TY + threadIdx.x / TX;"
    head = f"#pragma unroll\nfor (int j = 0; j < {genome['each']}; ++j)"
    return [*lines, *nested([head], [spot, *block("if (w < size_w && h < size_h)", cell)])]


def staged_body(form: StencilForm, genome: Genome) -> list[str]:
    """A tile with its halo in shared memory; in three dimensions the slowest axis is read from memory."""
    r = form.radius
    fill = [f"const int c = w0 + e % WIDE - {r}, r = h0 + e / WIDE - {r};"]
    at = "r * size_w + c" if form.dimensions == 2 else "(d * size_h + r) * size_w + c"
    fill.append(f"tile[e / WIDE][e % WIDE] = c >= 0 && c < size_w && r >= 0 && r < size_h ? READ(u_in + {at}) : 0.0f;")
    keys = {}
    for axis, s in form.neighbours:
        if axis == "w":
            keys[axis, s] = f"tile[y + {r}][x + {r + s}]"
        elif axis == "h":
            keys[axis, s] = f"tile[y + {r + s}][x + {r}]"
        else:
            keys[axis, s] = read(form, axis, s)
    cell = answer(form, keys, f"tile[y + {r}][x + {r}]")
    lines = ["const int w0 = blockIdx.x * TX, h0 = blockIdx.y * (TY * EACH);"]
    if form.dimensions == 3:
        lines.append("const int d = blockIdx.z;")
    lines += ["__shared__ float tile[TY * EACH + " + f"{2 * r}][WIDE + {genome['pad']}];"]
    lines += nested([f"for (int e = threadIdx.x; e < (TY * EACH + {2 * r}) * WIDE; e += TX * TY)"], fill)
    lines.append("__syncthreads();")
    inner = ["const int x = threadIdx.x % TX, y = threadIdx.x / TX + j * TY;", "const int w = w0 + x, h = h0 + y;"]
    return [
        *lines,
        *nested(
            ["#pragma unroll\nfor (int j = 0; j < EACH; ++j)"], [*inner, *block("if (w < size_w && h < size_h)", cell)]
        ),
    ]


def march_body(form: StencilForm, genome: Genome) -> list[str]:
    """Threads walk along the slowest axis with its neighbours in registers; the others are read or staged."""
    slow, r = form.axes[0], form.radius
    queue = list(range(-r, r + 1))
    names = {s: "u" if s == 0 else offset_name(slow, s) for s in queue}
    fast = form.axes[1:]
    lines = ["const int w = blockIdx.x * TX + threadIdx.x % TX;"]
    inside = "w < size_w"
    if form.dimensions == 3:
        lines.append("const int h = blockIdx.y * TY + threadIdx.x / TX;")
        inside += " && h < size_h"
        lines.append(f"const int first = blockIdx.z * {genome['steps']};")
    else:
        lines.append(f"const int first = (blockIdx.y * TY + threadIdx.x / TX) * {genome['steps']};")
    lines.append(f"const bool inside = {inside};")

    def plane(text: str) -> str:
        at = nest([f"({text})", *fast], sizes(form))
        return f"inside && {text} >= 0 && {text} < size_{slow} ? READ(u_in + {at}) : 0.0f"

    lines += [f"float {names[s]} = {plane(f'first + {s}' if s >= 0 else f'first - {-s}')};" for s in queue[:-1]]
    keys = {key: read(form, *key) for key in form.neighbours if key[0] != slow}
    body = [f"const int {slow} = first + step;", f"const float {names[r]} = {plane(f'{slow} + {r}')};"]
    if genome["space"] == "march_staged":
        lines += [f"__shared__ float tile[TY + {2 * r if form.dimensions == 3 else 0}][TX + {2 * r}];"]
        lines.append("const int x = threadIdx.x % TX, y = threadIdx.x / TX;")
        body += march_fill(form)
        keys = {key: march_tile(form, *key) for key in keys}
    body += block(f"if (inside && {slow} < size_{slow})", answer(form, keys, None))
    body += [f"{names[s]} = {names[s + 1]};" for s in queue[:-1]]
    head = f"#pragma unroll 1\nfor (int step = 0; step < {genome['steps']}; ++step)"
    return [*lines, *nested([head], body)]


def march_fill(form: StencilForm) -> list[str]:
    """Fills the plane's tile: centres from registers, halo cells from memory."""
    r, slow = form.radius, form.axes[0]
    low = r if form.dimensions == 3 else 0
    lines = ["__syncthreads();", f"tile[y + {low}][x + {r}] = u;"]
    lines.append(f"const bool there = {slow} < size_{slow};")
    edges = [("w", -1, f"x < {r}", f"tile[y + {low}][x]", f"w - {r} >= 0", -r)]
    edges.append(("w", 1, f"x >= TX - {r}", f"tile[y + {low}][x + {2 * r}]", f"w + {r} < size_w", r))
    row = "h < size_h && " if form.dimensions == 3 else ""
    for axis, _, where, cell, ok, shift in edges:
        lines.append(f"if ({where}) {cell} = there && {row}{ok} ? READ(u_in + {place(form, axis, shift)}) : 0.0f;")
    if form.dimensions == 3:
        lines.append(f"if (y < {r}) tile[y][x + {r}] = there && w < size_w && h - {r} >= 0 && h - {r} < size_h")
        lines.append(f"    ? READ(u_in + {place(form, 'h', -r)}) : 0.0f;")
        lines.append(f"if (y >= TY - {r}) tile[y + {2 * r}][x + {r}] = there && w < size_w && h + {r} < size_h")
        lines.append(f"    ? READ(u_in + {place(form, 'h', r)}) : 0.0f;")
    return [*lines, "__syncthreads();"]


def march_tile(form: StencilForm, axis: str, distance: int) -> str:
    """A neighbour in the plane's tile."""
    r = form.radius
    low = r if form.dimensions == 3 else 0
    return f"tile[y + {low}][x + {r + distance}]" if axis == "w" else f"tile[y + {low + distance}][x + {r}]"


def render(problem: str, genome: Genome) -> str:
    """Kernel source."""
    form = FORMS[problem]
    space = str(genome["space"])
    tx, ty, each = int(genome["tx"]), int(genome["ty"]), int(genome["each"])
    body = {"flat": direct_body, "grid_stride": direct_body, "tile": direct_body, "staged": staged_body}.get(
        space, march_body
    )
    pointers = [*(f"const float* __restrict__ {name}_in" for name in form.fields), "float* __restrict__ v"]
    scalars = [*(f"float {name}" for name in form.scalars), "int count", *(f"int {name}" for name in sizes(form))]
    head = f'extern "C" __global__ void __launch_bounds__({tx * ty}) step_field({", ".join([*pointers, *scalars])})'
    names = {"TX": tx, "TY": ty, "EACH": each, "WIDE": tx + 2 * form.radius}
    code = [f"#define READ(p) {READS[str(genome['read'])]}", *(f"#define {n} {v}" for n, v in names.items()), ""]
    code += block(head, body(form, genome))
    lines = [*HEADER, 'module = CudaModule(r"""', *code, '""")', "", ""]
    lines.append(f"def run({', '.join([*form.fields, *form.scalars])}):")
    given = ", ".join([*form.fields, "v", *form.scalars, "v.numel()", *sizes(form)])
    run = [f"{', '.join(sizes(form))} = u.shape", "v = torch.empty_like(u)"]
    run += [f'module.launch("step_field", grid={grid(form, genome)}, block={tx * ty}, args=({given}))', "return v"]
    return "\n".join([*lines, *indent(run)]) + "\n"


def grid(form: StencilForm, genome: Genome) -> str:
    """Python text of the launch grid."""
    tx, ty, each, steps = (int(genome[name]) for name in ("tx", "ty", "each", "steps"))
    threads = tx * ty
    if genome["space"] == "flat":
        return f"(v.numel() + {threads * each - 1}) // {threads * each}"
    if genome["space"] == "grid_stride":
        return f"min((v.numel() + {threads - 1}) // {threads}, {132 * 2048 // threads * each})"
    across = f"(size_w + {tx - 1}) // {tx}"
    if genome["space"] in ("tile", "staged"):
        down = f"(size_h + {ty * each - 1}) // {ty * each}"
        return f"({across}, {down}, {'size_d' if form.dimensions == 3 else '1'})"
    if form.dimensions == 3:
        return f"({across}, (size_h + {ty - 1}) // {ty}, (size_d + {steps - 1}) // {steps})"
    return f"({across}, (size_h + {ty * steps - 1}) // {ty * steps}, 1)"


def genes(problem: str) -> tuple[Gene, ...]:
    """Genes of a stencil."""
    return (
        Gene("space", ("flat", "grid_stride", "tile", "staged", "march", "march_staged"), structural=True),
        Gene("tx", (16, 32, 64, 128)),
        Gene("ty", (1, 2, 4, 8, 16)),
        Gene("each", (1, 2, 4, 8)),
        Gene("steps", (4, 8, 16, 32)),
        Gene("pad", (0, 1)),
        Gene("read", tuple(READS)),
    )


def invalid(problem: str, genome: Genome) -> str | None:
    """Blocks of a poor size, and genes that would change nothing."""
    form = FORMS[problem]
    space = str(genome["space"])
    threads = int(genome["tx"]) * int(genome["ty"])
    if not 64 <= threads <= 512:
        return f"{threads} threads a block"
    if space in ("flat", "grid_stride") and genome["ty"] != 4:
        return "a flat block has no second axis"
    if not space.startswith("march") and genome["steps"] != 4:
        return "only a march has steps"
    if space.startswith("march") and genome["each"] != 1:
        return "a march has one cell a thread"
    if space != "staged" and genome["pad"] != 0:
        return "only a staged tile has padding"
    if space == "march_staged" and form.dimensions == 3 and int(genome["ty"]) < 2 * form.radius:
        return "a tile is lower than its halo"
    return None


FAMILIES: tuple[Family, ...] = (
    Family(
        name="stencil_cuda",
        backend=Backend.CUDA,
        problems=tuple(FORMS),
        genes=genes,
        render=render,
        invalid=invalid,
    ),
)
