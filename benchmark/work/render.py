"""An explanation for people: text for a terminal, and a picture of where the time goes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark.work.explain import Comparison, LaunchFacts, LineFacts, WorkloadFacts, figures
from kbench.benchmark.work.gpus import gpu_named

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {
    "issue": "instruction issue", "alu": "integer units", "fma": "float units", "special": "special functions",
    "double": "64-bit floats", "tensor": "tensor cores", "shared": "shared memory", "l2": "L2 traffic",
    "dram": "DRAM traffic", "latency": "waiting (latency)", "launch": "launches",
}  # fmt: skip
MEASURES = {
    "issued": "instructions", "flops": "tensor work", "l2_bytes": "L2 bytes",
    "shared_wavefronts": "shared-memory wavefronts",
}  # fmt: skip
CHANGES = {
    "tensor_flops": "tensor operations", "dram_bytes": "DRAM bytes", "l2_bytes": "L2 bytes",
    "shared_wavefronts": "shared-memory wavefronts", "sectors_per_request": "sectors per load",
    "sectors_per_store": "sectors per store",
    "stack_bytes": "stack bytes",
    "shared_bytes": "shared bytes per block", "registers": "registers per thread", "threads": "threads per block",
}  # fmt: skip
OF_LAUNCHES = ("launches", "fills and copies", "blocks", "threads", "registers", "shared_bytes", "stack_bytes", "waves")
OF_TRAFFIC = ("sectors_per_request", "l2_bytes", "dram_bytes", "shared_wavefronts", "atomics")
"""Rows of a table, in their order, by the names of `figures`; between them come instructions and tensor operations."""
PIPES = NAMES | {"memory": "loads, stores and shuffles", "control": "branches, barriers and waits"}
FACTORS = {64: "fp64", 32: "tf32", 16: "16-bit", 8: "8-bit"}
WHITE_BOX = "white-box time in us"
SHOWN = 0.03
"""Parts below this share of the largest are left out."""
CALIBRATED = "H200"
"""The GPU whose measured times the forecasts were fitted to."""
BAR = 24
WIDEST = 72
"""Characters of a source line that are shown."""
ROOM = 0.25
"""Share of a panel's width that the label of a forecast may take."""
INK, BLUE, GREY, RED = "#1b1f24", "#2563b0", "#c3cad3", "#c2410c"


def amount(value: float, unit: str = "") -> str:
    """A number with a decimal prefix: 1.2 M."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}".rstrip()


def duration(time_us: float) -> str:
    """Microseconds with three digits: 2,310 us."""
    return f"{time_us:.3g} us" if time_us < 999.5 else f"{float(f'{time_us:.3g}'):,.0f} us"


def caution(gpu: str) -> str | None:
    """What to know of forecasts for a GPU on which nothing was calibrated; None for the one on which it was."""
    return None if gpu.startswith(CALIBRATED) else f"calibrated on {CALIBRATED}; other GPUs are extrapolated"


def text_of(facts: WorkloadFacts, source: str) -> Iterator[str]:
    """One workload in lines of text."""
    forecast = facts.forecast
    ends = (duration(one).removesuffix(" us") for one in (forecast.low_us, forecast.high_us)) if forecast else ()
    interval = f" (four in five: {' to '.join(ends)})" if forecast is not None else ""
    word = "forecast" if forecast is not None else "counted"
    yield f"{facts.workload} on {facts.gpu}: {word} {duration(facts.time_us)}{interval}"
    yield f"  bound by {_bound(facts)}"
    largest = max(facts.parts_us.values())
    for name, part_us in sorted(facts.parts_us.items(), key=lambda part: -part[1]):
        if part_us >= SHOWN * largest:
            yield f"    {NAMES[name]:<18}{duration(part_us):>12}  {'█' * max(1, round(BAR * part_us / largest))}"
    yield f"  work: {', '.join(_work(facts))}"
    for launch in facts.launches:
        yield f"  launch: {_launch(launch)}"
    if facts.configurations > 1:
        which = f", {facts.configuration}" if facts.configuration else ""
        yield f"  autotuned: the fastest of {facts.configurations} configurations{which}"
    if facts.uncertain >= SHOWN:
        yield f"  unsure: {100 * facts.uncertain:.0f} % of the instructions depend on branches that only data decides"
    if facts.min_bytes - facts.dram_bytes > gpu_named(facts.gpu).l2_bytes:
        yield "  unsure: loops that numbers in memory decide were counted short; the forecast takes the problem's data"
    if facts.l1_unsure >= SHOWN:
        held = f"{100 * facts.l1_unsure:.0f} % of the sectors loaded are taken to be in L1"
        yield f"  unsure: {held}, which is too small for all that its blocks load"
    lines = source.splitlines()
    for line in facts.lines:
        text = lines[line.line - 1].strip() if line.line <= len(lines) else ""
        yield f"  line {line.line}: {100 * line.share:.0f} % of {_measure(line, facts)}  {text[:WIDEST]}"


def _reason(facts: WorkloadFacts) -> str:
    """What the least time follows from."""
    counted = f" for {amount(facts.dram_bytes, 'B')}" if facts.bound == "dram" else ""
    busy, of = facts.longest.multiprocessors
    # Half of the multiprocessors can use all of memory's rate.
    slowed = busy < (of / 2 if facts.bound == "dram" else of)
    whose = (
        f"the stated rate of the {busy} of {of} multiprocessors that have a block"
        if slowed
        else "the GPU's stated rate"
    )
    return f"at {whose}{counted}"


def _measure(line: LineFacts, facts: WorkloadFacts) -> str:
    """What a line's share is of; how much of L2's traffic reaches DRAM is not known by line."""
    if facts.bound != "dram":
        return MEASURES[line.measure]
    share = 100 * min(1.0, facts.dram_bytes / max(1.0, facts.l2_bytes - facts.common_bytes))
    own = " that not all blocks read" if facts.common_bytes else ""
    return f"{MEASURES[line.measure]}{own} ({share:.0f} % of them reach DRAM, of which lines is not known)"


def _bound(facts: WorkloadFacts) -> str:
    name = NAMES[facts.bound]
    if facts.bound == "latency":
        return f"{name}: too few warps wait at once, or each waits too often, to fill any unit"
    if facts.bound_us is None:
        return f"{name}: starting takes longer than the work"
    share = 100 * min(1.0, facts.bound_us / facts.time_us)
    usual = 100 * facts.bound_us / facts.parts_us[facts.bound]
    bar = f"; the bar is at {usual:.0f} % of that rate, the usual one" if facts.bound == "dram" else ""
    return f"{name}: at least {duration(facts.bound_us)} {_reason(facts)}, of which {share:.0f} % is reached{bar}"


def _work(facts: WorkloadFacts) -> Iterator[str]:
    yield f"{amount(facts.instructions)} warp instructions"
    for bits, flops in facts.flops.items():
        yield f"{amount(flops, 'FLOP')} in {bits}-bit tensor cores"
    again = facts.dram_bytes / facts.min_bytes if facts.min_bytes else 1.0
    beside = f" ({again:.3g}x the problem's data)" if again >= 1 + SHOWN else ""
    kept = facts.min_bytes - facts.dram_bytes
    if kept > SHOWN * facts.min_bytes:
        where = ": the rest stays in L2" if kept <= gpu_named(facts.gpu).l2_bytes else ""
        beside = f" (of {amount(facts.min_bytes, 'B')}{where})"
    yield f"{amount(facts.dram_bytes, 'B')} of DRAM{beside}"
    yield f"{amount(facts.l2_bytes, 'B')} of L2"
    if facts.sectors_per_request:
        yield f"{facts.sectors_per_request:.1f} sectors per load ({100 * facts.load_sectors_used:.0f} % of them used)"
    if facts.sectors_per_store:
        yield f"{facts.sectors_per_store:.1f} sectors per store ({100 * facts.store_sectors_used:.0f} % of them used)"
    if facts.shared_wavefronts:
        yield f"{amount(facts.shared_wavefronts)} shared-memory wavefronts ({facts.bank_conflicts:.1f} conflicts each)"
    if facts.atomics:
        yield f"{amount(facts.atomics)} atomics"
    if facts.fills_and_copies:
        yield f"{facts.fills_and_copies} fills and copies"


def plain_name(symbol: str) -> str:
    """A function's name as it was written, from a symbol of C++; arguments of a template are left out."""
    if not symbol.startswith("_Z"):
        return symbol
    rest, parts = symbol[2:].removeprefix("N"), list[str]()
    while (length := re.match(r"\d+", rest)) is not None:
        end = length.end() + int(length.group())
        parts.append(rest[length.end() : end])
        rest = rest[end:]
    return "::".join(parts) + "<…>" * rest.startswith("I") if parts else symbol


def _launch(launch: LaunchFacts) -> str:
    grid = "x".join(str(extent) for extent in launch.grid if extent > 1) or "1"
    often = f" {launch.times} times" if launch.times > 1 else ""
    busy, of = launch.multiprocessors
    parts = [
        f"{plain_name(launch.function)[:40]}{often}, counted {duration(launch.time_us)}",
        f"{grid} block{'s' * (grid != '1')} of {launch.threads} threads in "
        f"{launch.waves} wave{'s' * (launch.waves > 1)}",
        f"occupancy {100 * launch.occupancy:.0f} %",
        f"{launch.registers} registers",
    ]
    if busy < of:
        parts.append(f"{busy} of {of} multiprocessors have a block")
    if launch.shared_bytes:
        parts.append(f"{_memory(launch.shared_bytes)} shared")
    if launch.stack_bytes:
        parts.append(f"{launch.stack_bytes} B stack")
    return ", ".join(parts)


def _memory(nbytes: float) -> str:
    return f"{nbytes / 1024:.3g} KiB" if nbytes >= 1024 else f"{nbytes:.0f} B"


def _amount(name: str, value: float) -> str:
    """A figure of a comparison, as the text about one kernel has it."""
    if name == "occupancy":
        return f"{100 * value:.0f} %"
    return _memory(value) if name == "shared_bytes" else amount(value, "B" * name.endswith("bytes"))


def comparison_text(comparison: Comparison) -> Iterator[str]:
    """What is different about the second kernel, in lines of text."""
    word = "faster" if comparison.speedup >= 1 else "slower"
    ratio = comparison.speedup if comparison.speedup >= 1 else 1 / comparison.speedup
    chance = f" (chance of being faster: {100 * comparison.p_faster:.0f} %)" if comparison.p_faster is not None else ""
    (one_us, other_us), (before, after) = comparison.time_us, comparison.reason_us
    times = f"{comparison.workload}: forecast {duration(one_us)} and {duration(other_us)}"
    yield f"{times}; the second is {ratio:.2f}x {word}{chance}"
    first, second = (NAMES[bound] for bound in comparison.bounds)
    yield f"  both are bound by {first}" if first == second else f"  bound by {first} before, by {second} now"
    yield f"  the largest change is {NAMES[comparison.reason]}: {duration(before)} before, {duration(after)} now"
    for name, old, new in comparison.changes:
        factor = f" ({new / old:.2f}x)" if old and new else ""
        yield f"  {CHANGES.get(name, name)}: {_amount(name, old)} before, {_amount(name, new)} now{factor}"


def table(sides: Mapping[str, WorkloadFacts]) -> Iterator[str]:
    """One workload as a Markdown table: a column for each kernel, and the ratio of the second to the first.

    Figures that are zero in every column are left out.
    """
    columns = [_figures(facts) for facts in sides.values()]
    heads = [*sides, *["ratio"][: len(sides) - 1]]
    yield f"| workload {next(iter(sides.values())).workload} | {' | '.join(heads)} |"
    yield "|---" * (1 + len(heads)) + "|"
    for name in columns[0]:
        values = [column[name] for column in columns]
        if any(values):
            cells = [_cell(name, value) for value in values]
            cells += [_ratio(*values)] if len(values) > 1 else []
            yield f"| {name} | {' | '.join(cells)} |"
    bounds = [f"{NAMES[facts.bound]} ({facts.parts_us[facts.bound]:,.1f} us alone)" for facts in sides.values()]
    yield f"| bound by | {' | '.join([*bounds, *['-'][: len(sides) - 1]])} |"


def _figures(facts: WorkloadFacts) -> dict[str, float]:
    """The rows of a table in one column."""
    own = figures(facts) | {"fills and copies": facts.fills_and_copies, "blocks": math.prod(facts.longest.grid)}
    return {
        **{CHANGES.get(name, name): own[name] for name in OF_LAUNCHES},
        "occupancy": own["occupancy"],
        "instructions": own["instructions"],
        **{f"share of {PIPES[name]}": share for name, share in facts.pipes.items()},
        **{f"tensor operations, {name}": facts.flops.get(bits, 0.0) for bits, name in FACTORS.items()},
        **{CHANGES.get(name, name): own[name] for name in OF_TRAFFIC},
        "bytes of inputs and outputs": facts.min_bytes,
        "share behind branches that depend on data": facts.uncertain,
        WHITE_BOX: facts.white_box_us,
    }


def _ratio(one: float, other: float) -> str:
    if not one or not other:
        return "-"
    return f"{other / one:.3g}" if other < 1000 * one else f"{other / one:,.0f}"


def _cell(name: str, value: float) -> str:
    """A figure as its row shows it; whole numbers below a million are written in full."""
    if name == "occupancy" or name.startswith("share "):
        return f"{100 * value:.3g} %"
    if name == WHITE_BOX:
        return f"{value:,.1f}"
    return f"{value:,.0f}" if value < 1e6 and value == math.floor(value) else amount(value)


def draw(files: Mapping[str, Sequence[WorkloadFacts]], path: Path) -> None:
    """Draw what each resource takes, one panel per workload, with the forecast as a line, into a .png, .svg or .pdf."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    workloads = list(zip(*files.values(), strict=True))
    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": INK}
    with mpl.rc_context(style):
        figure = Figure(figsize=(7.2, 0.6 + 2.9 * len(workloads)), layout="constrained")
        for number, each in enumerate(workloads):
            _panel(figure.add_subplot(len(workloads), 1, number + 1), list(files), each)
        figure.savefig(path, dpi=150)


def _panel(axes: Axes, names: Sequence[str], each: Sequence[WorkloadFacts]) -> None:
    largest = max(part_us for facts in each for part_us in facts.parts_us.values())
    shown = [part for part in NAMES if any(facts.parts_us[part] >= SHOWN * largest for facts in each)]
    shown.sort(key=lambda part: max(facts.parts_us[part] for facts in each))
    height = 0.8 / len(each)
    ends = [facts.time_us if facts.forecast is None else facts.forecast.high_us for facts in each]
    end = max(1.12 * max(largest, *ends), max(facts.time_us for facts in each) / (1 - ROOM) if len(each) > 1 else 0.0)
    for at, (name, facts) in enumerate(zip(names, each, strict=True)):
        places = [number + (len(each) - 1) * height / 2 - at * height for number in range(len(shown))]
        plain = BLUE if at == 0 else GREY
        colours = [RED if part == facts.bound and len(each) == 1 else plain for part in shown]
        values = [facts.parts_us[part] for part in shown]
        bars = axes.barh(places, values, height=0.9 * height, color=colours, label=name)
        axes.bar_label(bars, labels=[duration(value).removesuffix(" us") for value in values], padding=3, fontsize=8)
        axes.axvline(facts.time_us, color=INK, linewidth=1, linestyle="-" if at == 0 else "--")
        # Above the bars; of two, the earlier forecast's to its left and the later one's to its right.
        early = facts.time_us <= min(one.time_us for one in each) and facts.time_us > ROOM * end
        axes.annotate(
            f"forecast {duration(facts.time_us)}", (facts.time_us, len(shown) - 0.15 + 0.6 * (len(each) - 1 - at)),
            xytext=(-4 if early else 4, 0), textcoords="offset points", ha="right" if early else "left", va="center",
            fontsize=8,
        )  # fmt: skip
        if facts.forecast is not None and len(each) == 1:
            axes.axvspan(facts.forecast.low_us, facts.forecast.high_us, color=INK, alpha=0.07, linewidth=0, zorder=0)
    axes.set_yticks(range(len(shown)), [NAMES[part] for part in shown])
    bounds = " and ".join(dict.fromkeys(NAMES[facts.bound] for facts in each))
    axes.set_title(f"{each[0].workload} on {each[0].gpu}: bound by {bounds}", loc="left", fontsize=10)
    axes.set_xlabel("us that each resource alone would take" + ("; grey: where four in five lie" * (len(each) == 1)))
    axes.set_xlim(0, end)
    axes.set_ylim(-0.6, len(shown) + 0.2 + 0.6 * (len(each) - 1))
    if len(each) > 1:
        # Beside the axes: inside, it would hide a line or a bar.
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), edgecolor="none")
