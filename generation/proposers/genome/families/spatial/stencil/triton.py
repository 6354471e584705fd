"""Stencils in Triton: every cell on its own, tiles, and tiles that march along the slowest axis."""

from __future__ import annotations

import re

from kbench.generation.proposers.genome.families.spatial.convolution.triton_parts import HEADER, indent, jit, nest
from kbench.generation.proposers.genome.families.spatial.stencil.form import FORMS, StencilForm, offset_name, sums
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.schemas import Backend


def sizes(form: StencilForm) -> list[str]:
    """Names of the grid's extents."""
    return [f"size_{axis}" for axis in form.axes]


def load(form: StencilForm, axis: str, distance: int, name: str = "u") -> str:
    """Text that loads a neighbour, zero outside the grid."""
    places = [f"{a} + {distance}" if a == axis and distance else a for a in form.axes]
    if distance < 0:
        places = [f"{a} - {-distance}" if a == axis else a for a in form.axes]
    inside = (
        f" & ({axis} + {distance} < size_{axis})" if distance > 0 else f" & ({axis} >= {-distance})" if distance else ""
    )
    at = nest([f"({place})" if " " in place else place for place in places], sizes(form))
    return f"tl.load({name}_ptr + {at}, mask=ok{inside}, other=0.0)"


def answer(form: StencilForm, genome: Genome, skip: tuple[str, ...] = ()) -> list[str]:
    """From coordinates to the store; neighbours along the axes in `skip` are there already."""
    lines = [] if skip else [f"u = {load(form, 'w', 0)}"]
    if genome["sums"] == "named":
        lines += [f"{offset_name(a, s)} = {load(form, a, s)}" for a, s in form.neighbours if a not in skip]
        lines += [f"{name} = {text}" for name, text in sums(form)]
    else:
        for number, (name, _) in enumerate(sums(form)):
            ring = [(a, s) for a, s in form.neighbours if abs(s) == number + 1]
            terms = [offset_name(a, s) if a in skip else load(form, a, s) for a, s in ring]
            lines += [f"{name} = {terms[0]}", *(f"{name} += {term}" for term in terms[1:])]
    lines += [f"{name} = {load(form, 'w', 0, name)}" for name in form.fields[1:]]
    lines.append("v = " + re.sub(r"(\d)f\b", r"\1", form.result))
    hint = ', cache_modifier=".cs"' if genome["store"] == "streamed" else ""
    return [*lines, f"tl.store(v_ptr + {nest(form.axes, sizes(form))}, v, mask=ok{hint})"]


def split_number(genome: Genome, rows: str) -> list[str]:
    """From `number`: the tile's place across and its row of tiles, of which there are `rows`."""
    if genome["order"] == "across_fast":
        return ["across = tl.cdiv(size_w, BLOCK)", "column = number % across", "row = number // across"]
    return [f"rows = {rows}", "column = number // rows", "row = number % rows"]


def locate(form: StencilForm, genome: Genome) -> list[str]:
    """From `number`: the cells of a tile and which of them exist."""
    space = genome["space"]
    deep = " * size_d" if form.dimensions == 3 else ""
    if space == "flat":
        lines = ["i = number * BLOCK + tl.arange(0, BLOCK)", "ok = i < count", "w = i % size_w"]
        if form.dimensions == 2:
            return [*lines, "h = i // size_w"]
        return [*lines, "h = i // size_w % size_h", "d = i // (size_w * size_h)"]
    if space == "row":
        lines = [*split_number(genome, f"size_h{deep}"), "w = column * BLOCK + tl.arange(0, BLOCK)"]
        lines += ["h = row % size_h + tl.zeros_like(w)", "ok = w < size_w"]
        return [*lines, *(["d = row // size_h + tl.zeros_like(w)"] if form.dimensions == 3 else [])]
    lines = split_number(genome, f"tl.cdiv(size_h, ROWS){deep}")
    lines += ["w = (column * BLOCK + tl.arange(0, BLOCK))[None, :]"]
    lines += ["down = tl.cdiv(size_h, ROWS)", "h = (row % down * ROWS + tl.arange(0, ROWS))[:, None]"]
    lines.append("ok = (w < size_w) & (h < size_h)")
    return [*lines, *(["d = row // down + tl.zeros_like(w)"] if form.dimensions == 3 else [])]


def march(form: StencilForm, genome: Genome) -> list[str]:
    """A tile of the faster axes walks STEPS cells along the slowest, its neighbours there kept in registers."""
    slow = form.axes[0]
    if form.dimensions == 2:
        lines = [*split_number(genome, "tl.cdiv(size_h, STEPS)"), "w = column * BLOCK + tl.arange(0, BLOCK)"]
        lines += ["inside = w < size_w", "first = row * STEPS + tl.zeros_like(w)"]
    else:
        lines = split_number(genome, "tl.cdiv(size_h, ROWS) * tl.cdiv(size_d, STEPS)")
        lines += ["w = (column * BLOCK + tl.arange(0, BLOCK))[None, :]", "down = tl.cdiv(size_h, ROWS)"]
        lines += ["h = (row % down * ROWS + tl.arange(0, ROWS))[:, None]", "inside = (w < size_w) & (h < size_h)"]
        lines.append("first = row // down * STEPS + tl.zeros_like(w)")
    queue = list(range(-form.radius, form.radius + 1))
    names = {s: "u" if s == 0 else offset_name(slow, s) for s in queue}

    def plane(text: str) -> str:
        at = nest([f"({text})", *form.axes[1:]], sizes(form))
        return f"tl.load(u_ptr + {at}, mask=inside & ({text} >= 0) & ({text} < size_{slow}), other=0.0)"

    lines += [f"{names[s]} = {plane(f'first + {s}' if s >= 0 else f'first - {-s}')}" for s in queue[:-1]]
    body = [
        f"{slow} = first + step",
        f"ok = inside & ({slow} < size_{slow})",
        f"{names[queue[-1]]} = {plane(f'{slow} + {form.radius}')}",
        *answer(form, genome, (slow,)),
        *(f"{names[s]} = {names[s + 1]}" for s in queue[:-1]),
    ]
    return [*lines, "for step in range(STEPS):", *indent(body)]


def render(problem: str, genome: Genome) -> str:
    """Kernel source."""
    form = FORMS[problem]
    space = genome["space"]
    body = march(form, genome) if space == "march" else [*locate(form, genome), *answer(form, genome)]
    if genome["grid"] == "persistent":
        body = ["for number in range(tl.program_id(0), tiles, tl.num_programs(0)):", *indent(body)]
    else:
        body = ["number = tl.program_id(0)", *body]
    rows = space == "tile" or (space == "march" and form.dimensions == 3)
    constants = ["BLOCK", *(["ROWS"] if rows else []), *(["STEPS"] if space == "march" else [])]
    pointers = [*(f"{name}_ptr" for name in form.fields), "v_ptr", *form.scalars]
    signature = ", ".join([*pointers, "count", "tiles", *sizes(form), *(f"{name}: tl.constexpr" for name in constants)])
    code = jit(f"step_field({signature})", body)
    return "\n".join([*HEADER, *code, *run_source(form, genome, constants)]) + "\n"


def run_source(form: StencilForm, genome: Genome, constants: list[str]) -> list[str]:
    """The `run` function."""
    across = f"triton.cdiv(size_w, {genome['block']})"
    down = f"triton.cdiv(size_h, {genome['rows']})"
    steps = f"triton.cdiv(size_{form.axes[0]}, {genome['steps']})"
    deep = ["size_d"] if form.dimensions == 3 else []
    tiles = {
        "flat": f"triton.cdiv(v.numel(), {genome['block']})",
        "row": " * ".join([across, "size_h", *deep]),
        "tile": " * ".join([across, down, *deep]),
        "march": " * ".join([across, *([down] if deep else []), steps]),
    }[str(genome["space"])]
    grid = f"min(tiles, {genome['programs']})" if genome["grid"] == "persistent" else "tiles"
    values = {"BLOCK": genome["block"], "ROWS": genome["rows"], "STEPS": genome["steps"]}
    given = [*form.fields, "v", *form.scalars, "v.numel()", "tiles", *sizes(form)]
    given += [f"{name}={values[name]}" for name in constants]
    lines = [f"{', '.join(sizes(form))} = u.shape", "v = torch.empty_like(u)", f"tiles = {tiles}"]
    lines += [f"step_field[({grid},)](", f"    {', '.join(given)}, num_warps={genome['warps']}", ")", "return v"]
    return [f"def run({', '.join([*form.fields, *form.scalars])}):", *indent(lines)]


def genes(problem: str) -> tuple[Gene, ...]:
    """Genes of a stencil."""
    return (
        Gene("space", ("flat", "row", "tile", "march", "march"), structural=True),
        Gene("grid", ("plain", "persistent"), structural=True),
        Gene("order", ("across_fast", "down_fast"), structural=True),
        Gene("sums", ("named", "running"), structural=True),
        Gene("store", ("plain", "streamed")),
        Gene("block", (32, 64, 128, 256, 512, 1024)),
        Gene("rows", (2, 4, 8, 16)),
        Gene("steps", (4, 8, 16, 32)),
        Gene("programs", (528, 1056, 2112)),
        Gene("warps", (1, 2, 4, 8)),
    )


def invalid(problem: str, genome: Genome) -> str | None:
    """Tiles that are too large, too small, or repeat another."""
    form = FORMS[problem]
    space = genome["space"]
    rows = space == "tile" or (space == "march" and form.dimensions == 3)
    if not rows and genome["rows"] != 2:
        return "this space has no rows"
    if space != "march" and genome["steps"] != 4:
        return "only a march has steps"
    if space == "flat" and genome["order"] != "across_fast":
        return "flat cells have one order"
    if genome["grid"] == "plain" and genome["programs"] != 528:
        return "programs matters only to a persistent grid"
    each = int(genome["block"]) * (int(genome["rows"]) if rows else 1) // (32 * int(genome["warps"]))
    if not 1 <= each <= (8 if form.dimensions == 3 else 16):
        return f"{each} cells a thread"
    if form.dimensions == 3 and space != "flat" and int(genome["block"]) > 256:
        return "a row is shorter than the block"
    return None


FAMILIES: tuple[Family, ...] = (
    Family(
        name="stencil_triton",
        backend=Backend.TRITON,
        problems=tuple(FORMS),
        genes=genes,
        render=render,
        invalid=invalid,
    ),
)
