"""Verdicts for `kbench data assemble --corrections`: kernels of the dataset that a check by plan refuted.

PYTHONPATH=src python docs/evidence/scripts/relabel.py docs/evidence/harness/planned*.jsonl.xz \\
    --out docs/evidence/runs/relabelled.jsonl

Writes a line per kernel: kernel_id, problem_id, status, error and evidence, which is the file it comes from. Kernels
that ran out of time are named and not relabelled: a busy machine does that too.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import click

from kbench.generation.assembly.plans import parse_record
from kbench.loaders.storage.atomic import write_atomically
from kbench.loaders.storage.lines import read_lines
from kbench.schemas import Status

DOUBTFUL = (Status.TIMEOUT, Status.INFRASTRUCTURE_ERROR)


def verdicts(paths: list[Path]) -> dict[str, dict[str, str]]:
    """The first failure of each kernel that failed; of a kernel checked twice, the last check counts."""
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        for line, _ in read_lines(path, parse_record):
            found.pop(line["kernel_id"], None)
            failed = [(status, error) for _, status, error, *_ in line["rows"] if status != Status.OK]
            if failed:
                (status, error), key = failed[0], line["kernel_id"]
                about = {"kernel_id": key, "problem_id": line["problem_id"], "status": status, "error": error}
                found[key] = about | {"evidence": path.name}
    return found


@click.command()
@click.argument("planned", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
def main(planned: tuple[Path, ...], out: Path) -> None:
    """Write the verdicts and count them."""
    found = verdicts(list(planned))
    kept = [found[key] for key in sorted(found) if found[key]["status"] not in DOUBTFUL]
    write_atomically(out, "".join(json.dumps(line) + "\n" for line in kept))
    click.echo(f"{len(kept)} kernels relabelled: {dict(Counter(line['status'] for line in kept))}")
    for line in found.values():
        if line["status"] in DOUBTFUL:
            click.echo(f"left as it is: {line['kernel_id']} ({line['problem_id']}): {line['status']}")
    for problem, count in sorted(Counter(line["problem_id"] for line in kept).items()):
        click.echo(f"  {problem}: {count}")


if __name__ == "__main__":
    main()
