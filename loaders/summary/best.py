"""The fastest kernels of a problem, one kernel in full, and how it came to be: what a kernel engineer asks first."""

from __future__ import annotations

import dataclasses
import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import ReferenceTime, Status, UnknownNameError, UserError, from_dict

SHOWN_DIGITS = 12
"""Digits of an id in tables: enough to tell kernels apart, and to ask for one."""
COMPILED, VENDOR, BEST = "torch.compile", "vendor", "best"
BRIEF = (
    "kernel_id", "problem_id", "backend", "gpu", "status", "runtime_us", "runtime_low_us", "runtime_high_us",
    "speedup_best", "speedup", "speedup_low", "speedup_high", "registers", "spill_bytes", "shared_bytes",
    "search_method", "proposer", "model", "run_id", "step", "parent_id", "edit", "error",
)  # fmt: skip
FIGURES = (
    "problem_id", "workload", "gpu", "env_id", "status", "runtime_us", "runtime_low_us", "runtime_high_us", "speedup",
    "floor_us", "registers", "spill_bytes",
)  # fmt: skip
FLOOR_MARGIN = 0.9
"""What `floor_us` takes of the time of the arithmetic, so that no true measurement is refused."""
LINEAGE = (
    "kernel_id", "parent_id", "runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "status", "step", "edit",
    "search_method", "source",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class KernelView:
    """One kernel on one GPU, with all that was measured of it."""

    row: Mapping[str, Any]
    workloads: tuple[Mapping[str, Any], ...]
    lineage: tuple[Mapping[str, Any], ...]
    """Its ancestors from the first on, and itself as the last."""

    def diff(self) -> list[str]:
        """What changed since the nearest ancestor that is decidedly slower, or else the parent, as lines of a diff.

        None for a kernel without ancestors.
        """
        if len(self.lineage) < 2:
            return []
        ancestor, child = self._slower() or self.lineage[-2], self.lineage[-1]
        before, after = ancestor["source"].splitlines(), child["source"].splitlines()
        return list(difflib.unified_diff(before, after, label(ancestor), label(child), lineterm="", n=2))

    def diff_note(self) -> str | None:
        """What a reader of the diff must know: that it explains nothing, or spans several generations."""
        if len(self.lineage) < 2:
            return None
        slower = self._slower()
        if slower is None:
            return "against the parent: no ancestor is decidedly slower, the difference is within noise"
        generations = len(self.lineage) - 1 - self.lineage.index(slower)
        if generations == 1:
            return None
        return f"against the nearest ancestor that is decidedly slower, {generations} generations back"

    def _slower(self) -> Mapping[str, Any] | None:
        """The nearest ancestor whose 95 % interval of runtime lies above this kernel's."""
        high = self.lineage[-1]["runtime_high_us"]
        ancestors = reversed(self.lineage[:-1]) if high is not None else ()
        return next((a for a in ancestors if a["runtime_low_us"] is not None and a["runtime_low_us"] > high), None)


def label(row: Mapping[str, Any]) -> str:
    """A kernel and its speed, in a few words."""
    speed = f"{row['speedup']:.3f}x" if row["speedup"] is not None else str(row["status"])
    time = f"{row['runtime_us']:.4g} us, " if row["runtime_us"] is not None else ""
    return f"{row['kernel_id'][:SHOWN_DIGITS]} ({time}{speed})"


def best_kernels(
    corpus: Corpus, problem: str | None, limit: int | None, *, where: str | None = None, beats: str | None = None,
    each: bool = False, **facets: Any,
) -> tuple[list[dict[str, Any]], int]:  # fmt: skip
    """The fastest correct kernels of a problem, each with its share of the roofline; of all, the largest speedups.

    Beside them stands how many there are without a limit.

    Within a problem runtimes decide: a speedup also holds the noise of the reference it was timed beside.

    Args:
        corpus: the dataset.
        problem: its id; None for the kernels of every problem.
        limit: how many; None for all.
        where: a condition on kernels.
        beats: the beginning of a baseline's name, such as cuBLAS or torch.compile, or "vendor" for any library of a
            vendor, or "best" for the best reference: only kernels that are faster than it, those furthest ahead first.
        each: only the fastest kernel of each problem and GPU.
        **facets: as in `Corpus.select`.
    """
    condition = "speedup is not null" + (f" and ({where})" if where else "")
    chosen = corpus.select(columns=BRIEF, problem=problem, status=Status.OK, where=condition, **facets)
    order = ["runtime_us", "-speedup"] if problem or each else ["-speedup"]
    rows: list[dict[str, Any]] = chosen.ordered(order, None if beats or each else limit).to_pylist()
    count = None if beats or each else chosen.count()
    if each:
        # Reversed, so that of a problem's kernels the first stays.
        fastest = {(row["problem_id"], row["gpu"]): row for row in reversed(rows)}
        rows = sorted(fastest.values(), key=lambda row: -row["speedup"])
    if beats:
        rows = _ahead(corpus, rows, beats)
    count, rows = count or len(rows), rows[:limit]
    if not rows:
        asked = {**facets, "where": where, "faster than": "the best reference" if beats == BEST else beats}
        conditions = ", ".join(f"{name} {value}" for name, value in asked.items() if value)
        named = f"of {problem!r} " if problem else ""
        raise UserError(f"no correct kernel {named}" + (f"with {conditions} " if conditions else "") + "in the corpus")
    timed = timed_workloads(corpus, problem, [row["kernel_id"] for row in rows])
    completed = []
    for row in rows:
        own = timed.get((row["kernel_id"], row["gpu"]), [])
        short = sum(bool(one["launch_bound"]) for one in own)
        completed.append(
            row | {"roofline_share": whole_share(own), "workloads": len(own), "launch_bound_workloads": short}
        )
    return completed, count


def _ahead(corpus: Corpus, rows: Sequence[dict[str, Any]], beaten: str) -> list[dict[str, Any]]:
    """Rows that are faster than a baseline, with its name and the ratio of the times."""
    if beaten.lower() == BEST:
        if rows and not any(row["speedup_best"] for row in rows):
            raise UserError(
                "no references of these kernels were timed, so there is no best one; speedups are over eager"
            )
        return sorted((r for r in rows if (r["speedup_best"] or 0) > 1), key=lambda row: -row["speedup_best"])
    cells = dict.fromkeys((row["problem_id"], row["gpu"]) for row in rows)
    baselines = {cell: reference_speedups(corpus, *cell) for cell in cells}
    names = {name for speedups in baselines.values() for name in speedups}
    named = {n for n in names if (n != COMPILED if beaten.lower() == VENDOR else n.lower().startswith(beaten.lower()))}
    if not named:
        raise UnknownNameError("baseline", beaten, {*names, BEST})
    ahead = [
        row | {"baseline": name, "ahead": row["speedup"] / speedup}
        for row in rows
        for name, speedup in baselines[row["problem_id"], row["gpu"]].items()
        if row["speedup"] > speedup and name in named
    ]
    return sorted(ahead, key=lambda row: -row["ahead"])


def timed_workloads(
    corpus: Corpus, problem: str | None, kernels: Sequence[str]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Measurements by kernel and GPU, with their rooflines."""
    if "measurements" not in corpus.configs:
        return {}
    rows: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    found = corpus.table("measurements", columns=(*FIGURES, "kernel_id"), problem_id=problem, kernel_id=kernels)
    for row in with_rooflines(corpus, found.to_pylist()):
        rows[row["kernel_id"], row["gpu"]].append(row)
    return rows


def with_rooflines(corpus: Corpus, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Measurements with `roofline_us`, the `roofline_share` reached, `best_reference` and whether it is `launch_bound`.

    The roofline is the time of all inputs and outputs at the copy bandwidth that was measured in the same environment,
    or of the arithmetic. `floor_us` is lower, by a margin and what L2 may keep: it refuses times that cannot be true.
    """
    names = ("problems", "environments", "references")
    problems, environments, timed = (corpus.table(name).to_pylist() if name in corpus.configs else [] for name in names)
    moved = {(row["problem_id"], one["name"]): one["min_bytes"] for row in problems for one in row["workloads"]}
    rates = {row["env_id"]: row["copy_bandwidth_gbs"] for row in environments}
    references = {(row["problem_id"], row["workload"], row["gpu"]): from_dict(ReferenceTime, row) for row in timed}
    completed = []
    for row in rows:
        place = row["problem_id"], row["workload"]
        nbytes, rate, roofline = moved.get(place), rates.get(row["env_id"]), None
        if nbytes is not None and rate and row["floor_us"] is not None:
            roofline = max(nbytes / (1e3 * rate), row["floor_us"] / FLOOR_MARGIN)
        reference = references.get((*place, row["gpu"]))
        completed.append(row | {
            "roofline_us": roofline,
            "roofline_share": roofline / row["runtime_us"] if roofline and row["runtime_us"] else None,
            "best_reference": reference.best if reference else None,
            "launch_bound": reference.launch_bound if reference else None,
        })  # fmt: skip
    return completed


def whole_share(rows: Iterable[Mapping[str, Any]]) -> float | None:
    """A kernel's share of the roofline: geometric mean over the workloads that are not launch-bound, if any."""
    shares = [one["roofline_share"] for one in rows if one["roofline_share"] and not one["launch_bound"]]
    return geometric_mean(shares) if shares else None


def reference_speedups(corpus: Corpus, problem: str, gpu: str) -> dict[str, float]:
    """How fast torch.compile and the vendor's library are, as speedups over eager PyTorch; those that were timed."""
    if "references" not in corpus.configs:
        return {}
    where = f"problem_id == {problem!r} and gpu == {gpu!r}"
    rows = [from_dict(ReferenceTime, row) for row in corpus.table("references", where=where).to_pylist()]
    vendor = next((row.vendor for row in rows if row.vendor), VENDOR)
    times = {COMPILED: [row.compiled_us for row in rows], vendor: [row.vendor_us for row in rows]}
    return {
        name: geometric_mean(row.reference_us / us for row, us in zip(rows, own, strict=True) if us)
        for name, own in times.items()
        if rows and all(own)
    }


def find_kernel(corpus: Corpus, prefix: str, gpu: str | None = None) -> list[KernelView]:
    """A kernel by the beginning of its id, on every GPU it was measured on, the one with the most kernels first."""
    rows = corpus.table(
        columns=(*BRIEF, "source"), kernel_id=prefix or None, **({"gpu": gpu} if gpu else {})
    ).to_pylist()
    ids = sorted({row["kernel_id"] for row in rows})
    if len(ids) > 1:
        some = ", ".join(one[:SHOWN_DIGITS] for one in ids[:4])
        raise UserError(f"kernel id {prefix!r} is the beginning of {len(ids)} ids ({some}, …); give more digits")
    if not ids:
        raise UserError(f"no kernel's id begins with {prefix!r}; find ids with: kbench kernels best PROBLEM")
    order = corpus.gpus()
    rows.sort(key=lambda row: order.index(row["gpu"]) if row["gpu"] else len(order))
    return [_view(corpus, row) for row in rows]


def _view(corpus: Corpus, row: dict[str, Any]) -> KernelView:
    workloads, counters = [], {}
    gpu = f"gpu == {row['gpu']!r}" if row["gpu"] else "gpu is null"
    if "measurements" in corpus.configs:
        workloads = corpus.table("measurements", columns=FIGURES, kernel_id=row["kernel_id"], where=gpu).to_pylist()
    if "counters" in corpus.configs and row["gpu"]:
        counter_rows = corpus.table("counters", kernel_id=row["kernel_id"], where=gpu).to_pylist()
        counters = {one["workload"]: counters_text(one) for one in counter_rows}
    workloads = [one | {"counted": counters.get(one["workload"])} for one in with_rooflines(corpus, workloads)]
    whole = row | {"roofline_share": whole_share(workloads)}
    same = corpus.select(columns=LINEAGE, problem=row["problem_id"], backend=row["backend"], gpu=row["gpu"])
    return KernelView(whole, tuple(workloads), tuple(same.ancestors(row["kernel_id"]).to_pylist()))


def counters_text(row: Mapping[str, Any]) -> str:
    """Hardware counters of a call in words."""
    read, written, cache = (row[name] / 1e6 for name in ("dram_read_bytes", "dram_write_bytes", "l2_bytes"))
    return (
        f"DRAM {read:,.1f} MB read, {written:,.1f} MB written; L2 {cache:,.1f} MB;"
        f" occupancy {row['occupancy_percent']:.0f} %, issue slots {row['issue_percent']:.0f} %,"
        f" tensor cores {row['tensor_percent']:.0f} %"
    )
