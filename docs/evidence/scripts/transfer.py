"""How speedups and orders move between the device types of a dataset.

python docs/evidence/scripts/transfer.py DATASET --out transfer.json --plots .
prints the tables of docs/results/transfer.md.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import bins
from kbench.schemas.gpus import partition_size

COLUMNS = ["kernel_id", "problem_id", "family", "gpu", "status", "runtime_us", "runtime_low_us", "runtime_high_us",
           "speedup"]  # fmt: skip
LEAST_POOL = 8
"""Fewest kernels of a problem, correct on both types, that are worth ordering."""
WORST = 8
"""Problems listed at either end of a table."""
Row = Mapping[str, Any]
Pool = list[tuple[Row, Row]]
"""Kernels of one problem, each with its row on the whole GPU and on another type."""


def by_type(rows: Sequence[Row]) -> tuple[str, list[str], dict[tuple[str, str], Row]]:
    """The whole GPU, the other types from the largest to the smallest, and every row by kernel and GPU."""
    gpus = {row["gpu"] for row in rows}
    parts = {gpu: size for gpu in gpus if (size := partition_size(gpu))}
    (whole,) = gpus - set(parts)
    others = sorted(parts, key=lambda gpu: -parts[gpu][0])
    return whole, others, {(row["kernel_id"], row["gpu"]): row for row in rows}


def common(whole: str, other: str, found: Mapping[tuple[str, str], Row]) -> Iterator[tuple[Row, Row]]:
    """Kernels that both types have, whatever became of them."""
    for (kernel, gpu), row in found.items():
        if gpu == other and (kernel, whole) in found:
            yield found[kernel, whole], row


def correct(pairs: Sequence[tuple[Row, Row]]) -> Pool:
    """Those that are correct and timed on both."""
    return [(a, b) for a, b in pairs if a["speedup"] and b["speedup"]]


def grouped(pairs: Pool, column: str) -> dict[str, Pool]:
    """The pairs by a column."""
    groups: defaultdict[str, Pool] = defaultdict(list)
    for pair in pairs:
        groups[pair[0][column]].append(pair)
    return dict(sorted(groups.items()))


def moves(pairs: Pool) -> dict[str, float]:
    """How log2 speedups over PyTorch move, and how many leave their bin."""
    steps = sorted(math.log2(b["speedup"] / a["speedup"]) for a, b in pairs)
    sizes = sorted(map(abs, steps))
    left = statistics.fmean(bins.bin_of(a["speedup"]) != bins.bin_of(b["speedup"]) for a, b in pairs)
    return {
        "kernels": len(pairs), "median_octaves": statistics.median(steps),
        "median_size_octaves": statistics.median(sizes), "p95_size_octaves": sizes[int(0.95 * (len(sizes) - 1))],
        "other_bin_share": left,
    }  # fmt: skip


def flips(pools: Sequence[Pool]) -> dict[str, float | None]:
    """Of two kernels of one problem whose intervals do not meet on either type: how often the order is another."""
    told = turned = 0
    for pool in pools:
        for at, (a, b) in enumerate(pool):
            for c, d in pool[at + 1 :]:
                here, there = _order(a, c), _order(b, d)
                told += bool(here and there)
                turned += here * there < 0
    return {"pairs": told, "flipped_share": turned / told if told else None}


def _order(one: Row, other: Row) -> int:
    if one["runtime_high_us"] < other["runtime_low_us"]:
        return -1
    return 1 if one["runtime_low_us"] > other["runtime_high_us"] else 0


def correlation(pool: Pool) -> float:
    """Spearman's rank correlation of the runtimes on both types."""
    from scipy.stats import spearmanr

    return float(spearmanr([a["runtime_us"] for a, _ in pool], [b["runtime_us"] for _, b in pool]).statistic)


def loss(pool: Pool) -> float:
    """How much longer the whole GPU's best kernel takes on the other type than the best one there."""
    chosen = min(pool, key=lambda pair: pair[0]["runtime_us"])[1]["runtime_us"]
    return float(chosen / min(b["runtime_us"] for _, b in pool) - 1.0)


def study(rows: Sequence[Row]) -> dict[str, Any]:
    """Every figure of the page, by device type."""
    whole, others, found = by_type(rows)
    made: dict[str, Any] = {"whole": whole, "types": {}}
    for other in others:
        both = list(common(whole, other, found))
        pairs = correct(both)
        pools = {name: pool for name, pool in grouped(pairs, "problem_id").items() if len(pool) >= LEAST_POOL}
        families = grouped([pair for pool in pools.values() for pair in pool], "family")
        made["types"][other] = {
            "kernels": len(both),
            "other_status": sum(a["status"] != b["status"] for a, b in both),
            "moves": {"all": moves(pairs)} | {name: moves(part) for name, part in grouped(pairs, "family").items()},
            "flips": {"all": flips(list(pools.values()))}
            | {name: flips(list(grouped(part, "problem_id").values())) for name, part in families.items()},
            "spearman": {name: correlation(pool) for name, pool in pools.items()},
            "loss": {name: loss(pool) for name, pool in pools.items()},
        }
    return made


def tables(made: Mapping[str, Any]) -> str:
    """The page's tables."""
    parts = []
    for other, found in made["types"].items():
        head = "| family | kernels | median move, octaves | median size | 95 % of sizes | other bin | pairs | flipped |"
        lines = [f"**{other}** ({found['kernels']:,} kernels, {found['other_status']} with another status)", "", head]
        lines.append("|---|" + "---:|" * 7)
        for name, m in found["moves"].items():
            flip = found["flips"].get(name, {"pairs": 0, "flipped_share": None})
            share = "–" if flip["flipped_share"] is None else f"{100 * flip['flipped_share']:.1f} %"
            lines.append(
                f"| {name} | {m['kernels']:,} | {m['median_octaves']:+.2f} | {m['median_size_octaves']:.2f} | "
                f"{m['p95_size_octaves']:.2f} | {100 * m['other_bin_share']:.0f} % | {flip['pairs']:,} | {share} |"
            )
        for title, column, worst_first in (("rank correlation", "spearman", False), ("loss", "loss", True)):
            ordered = sorted(found[column].items(), key=lambda item: item[1], reverse=worst_first)
            values = sorted(found[column].values())
            quarters = statistics.quantiles(values, n=4) if len(values) > 1 else values * 3
            shown = ", ".join(f"`{name}` {value:.2f}" for name, value in ordered[:WORST])
            lines += ["", f"{title} over {len(values)} problems: quartiles {', '.join(f'{q:.3f}' for q in quarters)}; "
                      f"worst {shown}"]  # fmt: skip
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def plot(made: Mapping[str, Any], path: Path) -> None:
    """Rank correlation and loss of every problem, sorted, one line per type."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4.5))
    titles = {"spearman": "rank correlation with the whole GPU", "loss": "loss of the whole GPU's best kernel, %"}
    for panel, (column, label) in zip(axes, titles.items(), strict=True):
        for other, found in made["types"].items():
            values = sorted(found[column].values())
            shares = [(at + 1) / len(values) for at in range(len(values))]
            panel.step([100 * v if column == "loss" else v for v in values], shares, where="post", label=other)
        panel.set_xlabel(label)
        panel.set_ylabel("share of problems at or below")
        panel.grid(alpha=0.3)
    axes[1].set_xscale("symlog", linthresh=1.0)
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


@click.command()
@click.argument("dataset", type=click.Path(exists=True, path_type=Path))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True)
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path))
def main(dataset: Path, out: Path, plots: Path | None) -> None:
    """Write the figures, draw the plot, print the tables."""
    corpus = Corpus.open(dataset)
    made = {"dataset": corpus.fingerprint} | study(corpus.table("kernels", columns=COLUMNS).to_pylist())
    out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    if plots is not None:
        plot(made, plots / "transfer.png")
    click.echo(tables(made))


if __name__ == "__main__":
    main()
