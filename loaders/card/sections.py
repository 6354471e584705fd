"""Findings as Markdown: the card's sections on speedups, trust, cost and coverage."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from kbench.loaders.card.errata import Erratum
from kbench.loaders.card.findings import Findings, Peak
from kbench.loaders.card.plots import BINS, CAPTIONS
from kbench.loaders.card.weaknesses import WEAKNESSES
from kbench.loaders.corpus.manifest import LEDGER, PLOTS
from kbench.loaders.summary import ledger
from kbench.loaders.summary.coverage import Goal, ProblemCoverage
from kbench.loaders.summary.ledger import Costs
from kbench.loaders.summary.repeats import Repeats
from kbench.loaders.summary.trust import Trust

GPU_HOURS, PARQUET_MB = 1, 30
"""The most the shipped dataset may cost and weigh."""
UNEXPLAINED = "No explanation has been written yet: treat this figure with suspicion."


def markdown_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table; bars in cells are escaped."""
    cells = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def findings_sections(found: Findings) -> Iterator[str]:
    """The sections, each only where the corpus has what it is about."""
    if found.plots:
        yield "## Plots\n\n" + "\n\n".join(
            f"![{name.removesuffix('.svg').replace('-', ' ')}]({PLOTS}/{name})\n\n{_caption(name, found.gpu)}"
            for name in found.plots
        )
    if found.peaks:
        yield "## The largest speedups, explained\n\n" + _peaks(found.peaks, found.gpu)
    if found.trust.noise:
        told = [*_trust(found.trust, found.gpu is not None), *([_repeated(found.repeats)] if found.repeats else [])]
        yield "## Trust\n\n" + "\n\n".join(told)
    if found.errata:
        yield "## Errata\n\n" + _errata(found.errata)
    if found.costs:
        yield "## Cost\n\n" + _costs(found.costs)
    if found.coverage.problems:
        yield "## Coverage\n\n" + "\n\n".join(_coverage(found))


def _errata(errata: Sequence[Erratum]) -> str:
    told = "These kernels are recorded as correct, and were found wrong since. The next release corrects them."
    rows = [(f"`{one.kernel_id[:12]}`", f"`{one.problem_id}`", one.wrong) for one in errata]
    return f"{told}\n\n{markdown_table(('kernel', 'problem', 'what is wrong'), rows)}"


def _caption(name: str, gpu: str | None) -> str:
    if gpu is None:
        return CAPTIONS[name]
    return f"{CAPTIONS[name]} {'Pairs of every GPU' if name == BINS else f'Kernels as measured on {gpu}'}."


def _on(gpu: str | None) -> str:
    return f" on {gpu}" if gpu else ""


def _peaks(peaks: Sequence[Peak], gpu: str | None) -> str:
    rows = [
        (
            f"`{peak.problem_id}`", f"{peak.speedup:.1f}×", peak.backend, f"{peak.runtime_us:.1f}",
            f"`{peak.kernel_id[:12]}`", WEAKNESSES.get(peak.problem_id, UNEXPLAINED),
        )
        for peak in peaks
    ]  # fmt: skip
    return (
        f"The {len(peaks)} problems with the largest speedups{_on(gpu)}, each by its best kernel, and what the PyTorch "
        "reference does badly there. The references are plain PyTorch, run eagerly; a compiled or hand-tuned library "
        "may be far closer.\n\n"
        + markdown_table(("problem", "speedup", "backend", "µs", "kernel", "what the reference does"), rows)
    )


def _trust(trust: Trust, several_gpus: bool) -> Iterator[str]:
    yield (
        "Every row carries its noise floor as a 95 % interval. Half-width of the interval, by runtime of the "
        "measurement:\n\n"
    ) + markdown_table(
        ("runtime", "measurements", "median", "95th percentile", "median in µs"),
        [
            (
                f"{_plain(noise.low_us)} to {_plain(10 * noise.low_us)} µs", f"{noise.measurements:,}",
                f"{noise.median:.2%}", f"{noise.p95:.2%}", f"{noise.median_us:.2f}",
            )
            for noise in trust.noise
        ],
    )  # fmt: skip
    if trust.nearest_floor is not None:
        yield (
            f"Roofline: {trust.below_floor:,} of {trust.floors:,} timed measurements are below the floor that "
            f"bandwidth and arithmetic set; the nearest takes {trust.nearest_floor:.2f} times its floor."
        )
    if trust.wavering:
        yield _references(trust, several_gpus)
    if trust.compared:
        yield from _clocks(trust)


def _references(trust: Trust, several_gpus: bool) -> str:
    rows = [
        (
            f"`{one.problem_id}`", one.workload, *([one.gpu] * several_gpus), f"{one.measurements:,}",
            f"{one.low_us:.1f}", f"{one.median_us:.1f}", f"{one.high_us:.1f}",
        )
        for one in trust.wavering
    ]  # fmt: skip
    figures = ("measurements", "5th percentile, µs", "median, µs", "95th percentile, µs")
    head = ("problem", "workload", *(["GPU"] * several_gpus), *figures)
    return (
        "References that waver: the time of the PyTorch reference differs between the measurements it served as anchor "
        "for, because its calls wait for the device or for another reason. A kernel's runtime does not contain the "
        "reference's, but its speedup is uncertain to the same degree.\n\n" + markdown_table(head, rows)
    )


def _clocks(trust: Trust) -> Iterator[str]:
    gap = statistics.median(one.gap_us for one in trust.compared)
    above = [abs(one.gap_us - gap) / one.runtime_us for one in trust.compared]
    longer = sum(one.gap_us < 0 for one in trust.disagreements)
    early = sum(not one.ruled for one in trust.disagreements)
    yield (
        f"Second clock: CUPTI timed {len(trust.compared):,} measurements as well; {len(trust.disagreements):,} differ "
        f"by more than the harness's bound, {early:,} of them on rows without a launch-overhead "
        "baseline, which were flagged before that bound allowed for the distance of the marks. CUPTI "
        "counts from a kernel's first instruction to its last, and "
        "the event "
        f"timer's marks lie further apart: the median difference is {gap:.2f} µs, a constant that matters for short "
        f"kernels and is part of every runtime here. Without that constant the median difference is "
        f"{statistics.median(above):.2%} of the runtime. Where the difference is negative ({longer} of the "
        "disagreements) CUPTI saw a slower call than the event timer. The usual cause is a call of several launches: "
        "the profiler makes the host late, and the gaps between the launches of one call count as its time."
    )
    rows = [
        (
            f"`{one.kernel_id[:12]}`", f"`{one.problem_id}`", one.workload, f"{one.runtime_us:.2f}",
            f"{one.second_clock_us:.2f}", f"{one.gap_us:+.2f}",
        )
        for one in trust.disagreements
    ]  # fmt: skip
    head = ("kernel", "problem", "workload", "event timer, µs", "CUPTI, µs", "difference, µs")
    yield _folded(f"The {len(rows)} measurements whose clocks disagree", markdown_table(head, rows))


def _repeated(repeats: Repeats) -> str:
    rows = [
        (
            f"≥ {group.low_us:g} µs" if group.low_us else f"< {group.high_us:g} µs", f"{group.measurements:,}",
            f"{group.median:.2%}", f"{group.p95:.2%}", f"{group.bias:+.2%}", f"{group.overlapping:.1%}",
        )
        for group in repeats.groups
    ]  # fmt: skip
    head = ("runtime", "measurements", "median difference", "95th percentile", "median with sign", "intervals overlap")
    return (
        f"Repeats: {repeats.kernels:,} kernels, {repeats.share:.1%} of all, were measured again in fresh processes on "
        f"another machine or day; {repeats.same_status:,} of {repeats.measurements:,} measurements ended with the same "
        "status. How far the runtimes lie apart, as the logarithm of their ratio:\n\n" + markdown_table(head, rows)
    )


def _costs(costs: Costs) -> str:
    published = costs.to_json()["published_release"]
    rate = costs.kernels_per_gpu_hour or 0.0
    rows = [
        ("build (CPU, beside the GPU)", f"{costs.build_cpu_seconds:,.0f}", _each(costs, costs.build_cpu_seconds)),
        ("verify (GPU)", f"{costs.verify_gpu_seconds:,.0f}", _each(costs, costs.verify_gpu_seconds)),
        ("time (GPU)", f"{costs.time_gpu_seconds:,.0f}", _each(costs, costs.time_gpu_seconds)),
        ("**GPU in total**", f"**{costs.gpu_seconds:,.0f}**", f"**{_each(costs, costs.gpu_seconds)}**"),
        (
            "published release, GPU", f"{3600 * ledger.PUBLISHED_GPU_HOURS:,}",
            f"{published['gpu_seconds_per_kernel']:.0f}",
        ),
    ]  # fmt: skip
    return (
        f"{costs.kernels:,} kernels ({costs.measurements:,} measurements) took {costs.gpu_seconds / 3600:.2f} "
        f"GPU-hours of verifying and timing: {rate:,.0f} kernels per GPU-hour. The published release of "
        f"{ledger.PUBLISHED_KERNELS:,} kernels states {ledger.PUBLISHED_GPU_HOURS} GPU-hours, "
        f"{published['kernels_per_gpu_hour']:.0f} kernels per GPU-hour. From the first to the last measurement, "
        f"waiting for builds included, GPUs were held for {costs.held_seconds:,.0f} s. The figures are in "
        f"`{LEDGER}`.\n\n" + markdown_table(("stage", "seconds", "seconds per kernel"), rows)
    )


def _each(costs: Costs, seconds: float) -> str:
    return f"{costs.per_kernel(seconds) or 0.0:.3f}"


def _coverage(found: Findings) -> Iterator[str]:
    coverage, size = found.coverage, found.parquet_bytes / 1e6
    rows = [goal_row(goal) for goal in coverage.goals]
    if found.costs:
        hours = found.costs.gpu_seconds / 3600
        rows.append(("GPU-hours of verifying and timing", f"< {GPU_HOURS}", f"{hours:.2f}", _word(hours < GPU_HOURS)))
    rows.append(("Parquet files, MB", f"≤ {PARQUET_MB}", f"{size:.1f}", _word(size <= PARQUET_MB)))
    reached = sum(row[3] == _word(True) for row in rows)
    yield (
        f"What the shipped dataset aims at, and what this one holds: {reached} of {len(rows)} aims are reached."
        f"{f' Kernels count as measured on {found.gpu}; the rest is of every GPU.' if found.gpu else ''}\n\n"
    ) + markdown_table(("property", "aim", "found", "reached"), rows)
    backends = sorted({name for problem in coverage.problems for name in problem.kernels}, reverse=True)
    head = ("problem", *(f"{name} kernels (structures)" for name in backends), "p95/p5 runtime", "best speedup")
    listing = markdown_table(head, [_problem_row(problem, backends) for problem in coverage.problems])
    yield _folded(f"Kernels with status ok{_on(found.gpu)}, by problem ({len(coverage.problems)} problems)", listing)


def goal_row(goal: Goal) -> tuple[str, str, str, str]:
    """A goal in words: property, aim, found, reached."""

    def shown(value: float) -> str:
        return f"{value:.1%}" if goal.share else f"{value:,.0f}" if value == int(value) else f"{value:.2f}"

    return goal.what, f"≥ {shown(goal.aim)}", shown(goal.found), _word(goal.reached)


def _problem_row(problem: ProblemCoverage, backends: Sequence[str]) -> tuple[str, ...]:
    return (
        f"`{problem.problem_id}`",
        *(f"{problem.kernels.get(name, 0)} ({problem.structures.get(name, 0)})" for name in backends),
        "" if problem.spread is None else f"{problem.spread:.2f}",
        "" if problem.best_speedup is None else f"{problem.best_speedup:.2f}×",
    )


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def _word(reached: bool) -> str:
    return "yes" if reached else "not yet"


def _folded(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"
