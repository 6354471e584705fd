"""A corpus with a tuning table from what runs measured: tuning.py OUT [ROWS.jsonl.xz ...]; by default those here.

kbench evaluate --tracks tune --dataset OUT then scores strategies on it. `tuning.py live` prints what the hook saved.
"""

from __future__ import annotations

import functools
import itertools
import json
import lzma
import math
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbench.generation.proposers.genome.header import read_file
from kbench.generation.proposers.genome.template import GENOMES
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import TuningTime, from_dict
from kbench.schemas.record import field_types

LIVE = Path(__file__).parents[1] / "tuning-live.json.xz"
ROWS = Path(__file__).parents[1] / "tuning.jsonl.xz"
RIGHT = 0.5
"""Share of its configurations that must work somewhere, or the kernel is wrong and nothing is asked about it."""
HELD_OUT = (
    "adamw", "attention_backward", "chunk_scan", "conv1d", "grouped_wgrad", "int4", "log_probs", "lora", "mla",
    "rms_backward", "rope", "states",
)  # fmt: skip
"""Templates whose kernels nothing is fitted to. All kernels of a template lie in one split: they share their text."""
SHOWN = (1 / 6, 1 / 2, 5 / 6)
"""Where in the order of a kernel's shapes those lie whose times are shown in questions about the others. They are few:
between two neighbours of a dense list, the best of one is nearly the best of the other."""


@functools.cache
def templates() -> Mapping[str, str]:
    """The template of each tuned family."""
    files = sorted((GENOMES / "tuned").glob("*.py"))
    return {family.name: path.stem for path in files for family in read_file(path)}


def table_rows(measured: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the dataset's table from what runs measured: for each kernel and GPU all configurations at all shapes.

    A run that was cut off leaves shapes that some configurations lack: those are left out.
    """
    cells: dict[tuple[str, str], dict[tuple[str, str], Mapping[str, Any]]] = defaultdict(dict)
    for row in measured:
        cells[row["kernel"], row["gpu"]][row["shape_json"], row["config_json"]] = row
    names = [name for name in field_types(TuningTime) if name not in ("split", "shown")]
    rows: list[dict[str, Any]] = []
    for (kernel, _), found in sorted(cells.items()):
        per_shape = Counter(shape for shape, _ in found)
        whole = [shape for shape, count in per_shape.items() if count >= 0.9 * max(per_shape.values())]
        shapes = sorted(whole, key=lambda text: sorted(json.loads(text).items()))
        configs = [c for c in sorted({c for _, c in found}) if all((shape, c) in found for shape in shapes)]
        if sum(row["status"] == "ok" for row in found.values()) < RIGHT * len(found):
            continue
        shown = {shapes[int(share * len(shapes))] for share in SHOWN}
        split = "test" if templates()[kernel] in HELD_OUT else "train"
        for shape, config in itertools.product(shapes, configs):
            row = {name: found[shape, config].get(name) for name in names}
            rows.append(row | {"split": split, "shown": shape in shown})
    return rows


def main(out: str, *files: str) -> None:
    """Write a corpus."""
    texts = [lzma.decompress(Path(file).read_bytes()).decode() for file in files or (ROWS,)]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    with CorpusWriter(Path(out)) as writer:
        writer.append("tuning", [from_dict(TuningTime, row) for row in table_rows(rows)])


def live() -> None:
    """What tuning with the hook saved and lost, by kernel and in all."""
    found = json.loads(lzma.decompress(LIVE.read_bytes()))["kernels"]
    full_s = hook_s = 0.0
    losses: list[float] = []
    for name, kernel in found.items():
        own = [math.log(hook / full) for full, hook in kernel["again_ms"].values()]
        full_s, hook_s, losses = full_s + kernel["full_s"], hook_s + kernel["hook_s"], losses + own
        click.echo(f"{name}: {kernel['hook_s'] / kernel['full_s']:.1%} of {kernel['full_s']:.1f} s, {loss(own)}")
    click.echo(f"all: {hook_s / full_s:.1%} of {full_s:.1f} s, {loss(losses)}")


def loss(logs: Sequence[float]) -> str:
    """How much slower the hook's choices are than those of full tuning."""
    return f"slower by {math.expm1(statistics.fmean(logs)):.2%}, at most {math.expm1(max(logs)):.1%}"


if __name__ == "__main__":
    live() if sys.argv[1:] == ["live"] else main(*sys.argv[1:])
