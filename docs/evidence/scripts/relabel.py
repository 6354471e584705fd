"""Verdicts for `kbench data assemble --corrections`: kernels of the dataset that a check by plan refuted.

PYTHONPATH=src python docs/evidence/scripts/relabel.py docs/evidence/harness/planned*.jsonl.xz \\
    --out docs/evidence/runs/relabelled.jsonl

Writes a line per kernel and timed workload: kernel_id, workload, problem_id, status, error and evidence, which is the
file it comes from. Kernels that ran out of time are named and not relabelled: a busy machine does that too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from kbench.generation.assembly.plans import parse_record
from kbench.loaders.storage.atomic import write_atomically
from kbench.loaders.storage.lines import read_lines
from kbench.schemas import Status

DOUBTFUL = (Status.TIMEOUT, Status.INFRASTRUCTURE_ERROR)


def verdicts(paths: Sequence[Path]) -> list[dict[str, str]]:
    """Every failure on a timed workload; of a kernel checked twice, the last check counts."""
    found: dict[str, list[dict[str, str]]] = {}
    for path in paths:
        for line, _ in read_lines(path, parse_record):
            about = {"kernel_id": line["kernel_id"], "problem_id": line["problem_id"], "evidence": path.name}
            found[line["kernel_id"]] = [
                about | {"workload": workload, "status": status, "error": error}
                for workload, status, error, *_ in line["rows"]
                if status != Status.OK and workload != "tiny"
            ]
    return [verdict for key in sorted(found) for verdict in found[key]]


def counted(lines: list[dict[str, str]], field: str) -> dict[str, int]:
    """Kernels by what a field says of them."""
    return dict(sorted(Counter(value for _, value in {(line["kernel_id"], line[field]) for line in lines}).items()))


@click.command()
@click.argument("planned", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
def main(planned: tuple[Path, ...], out: Path) -> None:
    """Write the verdicts and count the kernels."""
    found = verdicts(planned)
    kept = [line for line in found if line["status"] not in DOUBTFUL]
    write_atomically(out, "".join(json.dumps(line) + "\n" for line in kept))
    click.echo(f"kernels relabelled: {counted(kept, 'status')}; by problem: {counted(kept, 'problem_id')}")
    for line in found:
        if line["status"] in DOUBTFUL:
            click.echo(f"left as it is: {line['kernel_id']} on {line['workload']}: {line['status']}")


if __name__ == "__main__":
    main()
