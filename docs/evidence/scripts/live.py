"""The live study: paired differences between arms over problems, by measurements and by GPU time.

It is read from the config `live` of the dataset, or from a log:

    python docs/evidence/scripts/live.py benchmark/dataset --study live-2 --out live-2.json
    python docs/evidence/scripts/live.py RUN --at 2 --at 4 --at 6 --out live-llm.json

docs/results/search-live-2.md says what was decided before the study ran.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import json
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbench.generation.log import found_files, read_log, seconds_between
from kbench.generation.search.settings import settings_from_json
from kbench.generation.search.state import outcome_of
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Measurement, from_dict

DATASET = Path(__file__).parents[3] / "benchmark" / "dataset"
AT = (8, 16, 24, 48, 64)
SHARES = (0.25, 0.5, 1.0)
"""GPU time at which arms are compared, as shares of what the arm that spent least in a cell had spent at its end."""
BY_TIME = "by_share_of_gpu_time"
PAIRS = (
    ("evolve", "random"), ("evolve+surrogate", "evolve"), ("random+surrogate", "random"),
    ("evolve+surrogate", "random"), ("evolve+surrogate", "random+surrogate"),
)  # fmt: skip
FURTHER = (("bayes", "evolve"), ("bayes", "random"), ("bayes+surrogate", "evolve"), ("bayes+surrogate", "bayes"))
"""The same for further designs, where they were run."""
SAME = 0.005
"""Arms whose best speedups are closer than this count as equal: times repeat to about half a percent."""
DRAWS = 2000
"""Bootstrap draws for an interval."""
IDLE_S = 30.0
"""A longer gap in the log is a pause between two commands."""


@dataclasses.dataclass(slots=True)
class Course:
    """One search: best speedup and GPU-seconds spent after each measurement; the best kernel."""

    best: list[float] = dataclasses.field(default_factory=list)
    spent: list[float] = dataclasses.field(default_factory=list)
    measured: list[str] = dataclasses.field(default_factory=list)
    kernel: str = ""
    failed: int = 0
    ended: bool = False
    """Whether it stopped, by its budget or because its space had nothing new."""

    def add(self, kernel_id: str, speedup: float | None, gpu_seconds: float) -> None:
        """One more measurement."""
        self.measured.append(kernel_id)
        before = self.best[-1] if self.best else 0.0
        self.failed += speedup is None
        if (speedup or 0.0) > before:
            self.kernel = kernel_id
        self.best.append(max(before, speedup or 0.0))
        self.spent.append((self.spent[-1] if self.spent else 0.0) + gpu_seconds)

    def reached(self, measurements: int) -> bool:
        """Whether it can be judged after so many measurements."""
        return self.ended or len(self.best) >= measurements

    def after(self, measurements: int) -> float:
        """Best speedup after so many measurements; one that ended before has its last."""
        return self.best[min(measurements, len(self.best)) - 1]

    def after_seconds(self, seconds: float) -> float:
        """Best speedup once so much GPU time was spent."""
        done = bisect.bisect_right(self.spent, seconds * (1 + 1e-9))
        return self.best[done - 1] if done else 0.0


Cell = tuple[str, str]
Courses = Mapping[Cell, Mapping[str, Course]]
Value = Callable[[Cell, str], float]


def read(folder: Path) -> tuple[Courses, dict[str, Any], dict[str, Any]]:
    """Every search, what the surrogate's steps took, and the recipe and edit of every kernel."""
    courses: defaultdict[Cell, defaultdict[str, Course]] = defaultdict(lambda: defaultdict(Course))
    place: dict[str, tuple[Cell, str]] = {}
    proposed: dict[str, Any] = {}
    began: dict[str, str] = {}
    drawn: dict[str, str] = {}
    guided: list[tuple[float, float]] = []
    forecast: dict[str, float] = {}
    times: list[str] = []
    events = Corpus.open(DATASET).table("events", columns=["run_id", "index", "payload_json"]).to_pylist()
    published = {(row["run_id"], row["index"]): row["payload_json"] for row in events}
    for entry in read_log(folder):
        # Shipped logs leave out what the dataset has.
        payload = entry.payload or json.loads(published.get((entry.run_id, entry.index), "{}"))
        if entry.kind == "run_started":
            settings = settings_from_json(payload["settings"], "settings")
            place[entry.run_id] = ((settings.problem_id, settings.backend.value), settings.search_method)
        elif entry.kind == "step_started":
            began[entry.run_id] = entry.at
        elif entry.kind == "candidate_proposed":
            drawn[entry.run_id] = entry.at
            proposed[payload["kernel_id"]] = {"recipe": payload["recipe"], "edit": payload["edit"]}
        elif entry.kind == "candidates_filtered":
            forecast[entry.run_id] = seconds_between(drawn[entry.run_id], entry.at)
        elif entry.kind == "step_completed" and entry.run_id in forecast:
            guided.append((forecast.pop(entry.run_id), seconds_between(began[entry.run_id], entry.at)))
        elif entry.kind in ("run_stopped", "run_resumed"):
            cell, arm = place[entry.run_id]
            courses[cell][arm].ended = entry.kind == "run_stopped"
        elif entry.kind == "kernel_measured":
            cell, arm = place[entry.run_id]
            outcome = outcome_of([from_dict(Measurement, row) for row in payload["measurements"]])
            courses[cell][arm].add(payload["kernel_id"], outcome.speedup, payload["gpu_seconds"])
            times.append(entry.at)
    gaps = [seconds_between(a, b) for a, b in itertools.pairwise(sorted(times))]
    running = sum(gap for gap in gaps if gap < IDLE_S)
    steps = max(sum(whole for _, whole in guided), 1e-9)
    pace = {
        "measurements": len(times), "running_seconds": running, "per_second": len(times) / max(running, 1e-9),
        "surrogate_seconds_per_step": statistics.mean(one for one, _ in guided) if guided else None,
        "surrogate_share_of_step": sum(one for one, _ in guided) / steps,
    }  # fmt: skip
    return courses, pace, proposed


def on_record(dataset: Path, study: str) -> tuple[Courses, dict[str, Any], dict[str, Any]]:
    """The same from a corpus, which has no times of steps."""
    courses: defaultdict[Cell, defaultdict[str, Course]] = defaultdict(lambda: defaultdict(lambda: Course(ended=True)))
    rows = [row for row in Corpus.open(dataset).table("live").to_pylist() if row["study"] == study]
    for row in sorted(rows, key=lambda row: (row["run_id"], row["number"])):
        course = courses[row["problem_id"], row["backend"]][row["search_method"]]
        course.add(row["kernel_id"], row["speedup"], row["gpu_seconds"])
    return courses, {}, {row["kernel_id"]: {"recipe": json.loads(row["recipe_json"] or "null")} for row in rows}


def compared(cells: Sequence[Cell], value: Value, arm: str, base: str, seed: int) -> dict[str, Any]:
    """The paired difference of two arms over cells, problems drawn whole, and who is ahead where."""
    by_problem: defaultdict[str, list[float]] = defaultdict(list)
    for cell in cells:
        by_problem[cell[0]].append(value(cell, arm) - value(cell, base))
    flat = [gain for gains in by_problem.values() for gain in gains]
    low, high = interval(list(by_problem.values()), random.Random(seed))
    return {
        "gain": sum(flat) / len(flat), "low": low, "high": high, "cells": len(flat), "problems": len(by_problem),
        "ahead": sum(gain > SAME for gain in flat), "equal": sum(abs(gain) <= SAME for gain in flat),
        "behind": sum(gain < -SAME for gain in flat),
    }  # fmt: skip


def interval(clusters: Sequence[Sequence[float]], rng: random.Random) -> tuple[float, float]:
    """95 % bootstrap interval of the mean, clusters drawn whole."""
    draws = []
    for _ in range(DRAWS):
        flat = [value for cluster in rng.choices(clusters, k=len(clusters)) for value in cluster]
        draws.append(sum(flat) / len(flat))
    draws.sort()
    return draws[round(0.025 * (DRAWS - 1))], draws[round(0.975 * (DRAWS - 1))]


Pairs = Sequence[tuple[str, str]]


def study(courses: Courses, pairs: Pairs, planned_pairs: Pairs, at: Sequence[int]) -> dict[str, Any]:
    """All comparisons. A cell takes part at a number of measurements that all its arms have reached.

    Args:
        courses: the searches.
        pairs: the arms to compare.
        planned_pairs: the arms whose best is the measure.
        at: numbers of measurements.
    """
    arms = list(dict.fromkeys(itertools.chain.from_iterable(pairs)))
    planned = list(dict.fromkeys(itertools.chain.from_iterable(planned_pairs)))
    whole = [cell for cell in sorted(courses) if all(courses[cell][arm].best for arm in {*arms, *planned})]
    top = {cell: max(courses[cell][arm].best[-1] for arm in planned) for cell in whole}
    whole = [cell for cell in whole if top[cell] > 0]
    result: dict[str, Any] = {"cells": len(whole), "by_measurements": {}, BY_TIME: {}}
    for n in at:
        reached = [cell for cell in whole if all(courses[cell][arm].reached(n) for arm in arms)]
        if reached:
            result["by_measurements"][n] = _point(reached, pairs, lambda c, a, n=n: courses[c][a].after(n) / top[c])
    for share in SHARES:
        least = {cell: share * min(courses[cell][arm].spent[-1] for arm in arms) for cell in whole}

        def found(cell: Cell, arm: str, least: Mapping[Cell, float] = least) -> float:
            return courses[cell][arm].after_seconds(least[cell]) / top[cell]

        without = {arm: {cell for cell in whole if not found(cell, arm)} for arm in arms}
        begun = [cell for cell in whole if not any(cell in cells for cells in without.values())]
        for name, cells in ((f"{share}", whole), (f"{share} where all arms had a correct kernel", begun)):
            if cells:
                result[BY_TIME][name] = _point(cells, pairs, found)
                result[BY_TIME][name]["without"] = {arm: len(without[arm] & {*cells}) for arm in arms}
    return result


def _point(cells: Sequence[Cell], pairs: Sequence[tuple[str, str]], value: Value) -> dict[str, Any]:
    arms = dict.fromkeys(itertools.chain.from_iterable(pairs))
    return {
        "share": {arm: statistics.mean(value(cell, arm) for cell in cells) for arm in arms},
        "pairs": {f"{arm} - {base}": compared(cells, value, arm, base, seed=0) for arm, base in pairs},
    }


def per_cell(courses: Courses, proposed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The best speedup of every arm at its end, and the best kernel of the cell."""
    rows = []
    for cell in sorted(courses):
        arms = {arm: course for arm, course in courses[cell].items() if course.best}
        best = max(arms, key=lambda arm: arms[arm].best[-1])
        rows.append({
            "problem": cell[0], "backend": cell[1], "best_arm": best, "kernel_id": arms[best].kernel,
            "recipe": proposed.get(arms[best].kernel, {}).get("recipe"),
            "arms": {
                arm: {"speedup": course.best[-1], "measurements": len(course.best), "failed": course.failed,
                      "gpu_seconds": math.fsum(course.spent[-1:])}
                for arm, course in sorted(arms.items())
            },
        })  # fmt: skip
    return rows


def draw(courses: Courses, path: Path) -> None:
    """The mean share of the best of each arm after every measurement that all searches have reached."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams.update({"svg.hashsalt": "kbench", "font.size": 9})
    arms = list(dict.fromkeys(itertools.chain.from_iterable(PAIRS)))
    top = {cell: max(found[arm].best[-1] for arm in arms) for cell, found in courses.items()}
    lengths = [(len(found[arm].best), found[arm].ended) for found in courses.values() for arm in arms]
    last = min((length for length, ended in lengths if not ended), default=max(length for length, _ in lengths))
    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    for arm in sorted(arms, key=lambda arm: ("surrogate" in arm, arm)):
        shares = [statistics.mean(courses[c][arm].after(n) / top[c] for c in courses) for n in range(1, last + 1)]
        style = "-" if "surrogate" in arm else "--"
        axes.plot(range(1, last + 1), shares, style, color="C0" if "evolve" in arm else "C1", label=arm)
    axes.set(xlabel="measurements", ylabel="best speedup, share of the cell's best", ylim=(0.7, 1.0))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(path, metadata={"Date": None})


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option("--study", "study_name", help="The study's name, where RUN is a corpus that has it in its config `live`.")
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option(
    "--pair", "pairs", type=(str, str), multiple=True, default=PAIRS, help="Arms to compare, such as evolve random."
)
@click.option("--at", type=int, multiple=True, default=AT, help="A number of measurements to compare after.")
@click.option("--plot", type=click.Path(path_type=Path), help="SVG file for the curves of the planned arms.")
def main(run: Path, study_name: str | None, out: Path, pairs: Pairs, at: Sequence[int], plot: Path | None) -> None:
    """Write the figures and print the table."""
    if not study_name and run.is_dir() and not found_files(run):
        raise click.ClickException(f"no search log in {str(run)!r}; give a run folder or a log file")
    courses, pace, proposed = on_record(run, study_name) if study_name else read(run)
    if not courses:
        raise click.ClickException(f"no study {study_name!r} in {str(run)!r}")
    found = study(courses, pairs, pairs, at)
    # Further designs may have a smaller budget: after it they are not compared.
    longest = max((len(arms[arm].best) for arms in courses.values() for arm, _ in FURTHER if arm in arms), default=0)
    further = study(courses, FURTHER, pairs, [n for n in at if n <= longest])
    whole = {**found, "further": further, "pace": pace, "per_cell": per_cell(courses, proposed)}
    out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    for part, name in itertools.product((found, further), ("by_measurements", BY_TIME)):
        for at, point in part[name].items():
            click.echo(f"{name} {at}: " + ", ".join(f"{arm} {share:.3f}" for arm, share in point["share"].items()))
            for pair, one in point["pairs"].items():
                counts = f"ahead {one['ahead']}, equal {one['equal']}, behind {one['behind']} of {one['cells']}"
                click.echo(f"  {pair:36} {one['gain']:+.3f} [{one['low']:+.3f}, {one['high']:+.3f}]  {counts}")
            if any(point.get("without", {}).values()):
                said = ", ".join(f"{arm} {count}" for arm, count in point["without"].items())
                click.echo(f"  cells without a correct kernel by then, which count as 0: {said}")
    if pace:
        click.echo(json.dumps(pace))
    if plot is not None:
        draw(courses, plot)


if __name__ == "__main__":
    main()
