"""What references achieve on a GPU: rates, shares of the ceilings, and the table of docs/results/references.md.

The record is made by references.py beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbench.schemas import UserError, Workload

BEGIN, END = "<!-- references: begin -->", "<!-- references: end -->"
MARGIN = 1.05
"""A reference counts as within a ceiling up to this factor: both are measured, and each to a few percent."""


def rates(work: Workload, time_us: float) -> dict[str, Any]:
    """What a time on a workload comes to, in bytes and operations per second."""
    return {
        "median_us": time_us,
        "flops": work.flops,
        "min_bytes": work.min_bytes,
        "gbps": work.min_bytes / time_us / 1e3,
        "tflops": work.flops / time_us / 1e6,
    }


def shares(row: Mapping[str, Any], bandwidth: Mapping[str, float], peaks: Mapping[str, float | None]) -> dict[str, Any]:
    """A row's rates as shares of the ceilings, and whether it stays below them."""
    peak = peaks.get(row["compute_unit"])
    of_bytes = row["gbps"] / max(bandwidth.values())
    of_flops = row["tflops"] / peak if peak else None
    within = of_bytes <= MARGIN and (of_flops is None or of_flops <= MARGIN)
    return {"share_of_bandwidth": of_bytes, "share_of_peak": of_flops, "within_ceilings": within}


def render_table(record: Mapping[str, Any]) -> str:
    """Markdown: the ceilings, then one row per workload."""
    environment, bandwidth, peaks = record["environment"], record["bandwidth_gbps"], record["peak_tflops"]
    units = ", ".join(f"{unit} {peak:,.0f}" for unit, peak in peaks.items() if peak)
    ways = ", ".join(f"{way} {rate:,.0f}" for way, rate in bandwidth.items())
    lines = [
        f"Measured on {environment['gpu']} with torch {environment['torch']}. Ceilings of the same run: {ways} GB/s;"
        f" large products {units} TFLOP/s.",
        "",
        "| problem | family | workload | median µs | GB/s | of bandwidth | TFLOP/s | unit | of peak |",
        "|---|---|---|---:|---:|---:|---:|---|---:|",
    ]
    return "\n".join(lines + [_row(row) for row in record["references"]]) + "\n"


def _row(row: Mapping[str, Any]) -> str:
    head = f"| {row['problem_id']} | {row['family']} | {row['workload']} |"
    if "error" in row:
        return f"{head} failed: {row['error'].replace('|', '/')} | | | | {row['compute_unit']} | |"
    share = row["share_of_peak"]
    return (
        f"{head} {row['median_us']:.1f} | {row['gbps']:.0f} | {row['share_of_bandwidth']:.0%} | {row['tflops']:.2f}"
        f" | {row['compute_unit']} | {'' if share is None else f'{share:.0%}'} |"
    )


def insert_table(page: str, table: str) -> str:
    """The page with what stands between its two marks replaced.

    Raises:
        UserError: the page lacks a mark.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"the page has no marks {BEGIN} and {END}; add them where the table belongs")
    return f"{before}{BEGIN}\n{table}{END}{after}"
