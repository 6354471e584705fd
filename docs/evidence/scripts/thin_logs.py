"""Leave out of the logs what the dataset holds of their kernels. Usage: thin_logs.py DATASET RUNS [--whole]

RUNS is a folder of run logs and of corpora with measurements, as docs/evidence/runs. Each log is packed again and each
corpus written again. `--whole` puts texts and samples back, which must come before a kernel of the dataset is
measured again. Assembling thin logs needs a recipe with `samples`.
"""

from __future__ import annotations

import dataclasses
import functools
import lzma
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from kbench.generation.assembly.figures import Samples
from kbench.generation.log import LogEntry, found_files, pack, read_log
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter, compact
from kbench.loaders.storage.lines import sealed
from kbench.schemas import Measurement, Status, from_dict, to_dict

CORRECTIONS = "corrections*"
"""Folders of kernels that were measured again."""
KEPT = (
    "measurement_id", "kernel_id", "problem_id", "gpu", "workload", "env_id", "status", "error", "runtime_us",
    "speedup", "floor_us", "registers", "shared_bytes", "spill_bytes", "started_at", "trust", "not_restored",
)  # fmt: skip
"""Fields of a thin measurement: its identity, its verdict, and the figures a search goes by."""
CARD_FILES = ("README.md", "croissant.json", "ledger.json")
"""A corpus of measurements alone is evidence and needs no card."""


def main() -> None:
    dataset, runs = Path(sys.argv[1]), Path(sys.argv[2])
    text: Callable[[LogEntry], LogEntry]
    if "--whole" in sys.argv:
        samples = Samples(dataset)
        text, change = samples.entry, put_back(samples, published_rows(dataset))
    else:
        published = set(Corpus.open(dataset).table("kernels", columns=["kernel_id"]).column("kernel_id").to_pylist())
        text = functools.partial(without_source, published=published)
        change = take_out(dataset, sorted(runs.glob(CORRECTIONS)))
    for folder in sorted(path for path in runs.rglob("*") if path.is_dir()):
        before = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if found_files(folder):
            rewrite_log(folder, change, text)
        elif (folder / "manifest.json").exists() and not folder.name.startswith("season"):
            rewrite_corpus(folder, change)
        else:
            continue
        after = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        sys.stdout.write(f"{folder}: {before:,} to {after:,} bytes\n")


def published_rows(dataset: Path) -> dict[str, dict[str, Any]]:
    """Measurements and repeats of the dataset by id."""
    corpus = Corpus.open(dataset)
    return {
        row["measurement_id"]: row for name in ("measurements", "repeats") for row in corpus.table(name).to_pylist()
    }


def without_source(entry: LogEntry, published: Collection[str]) -> LogEntry:
    """A log's entry without the text of a kernel that is published, by id."""
    if entry.kind != "candidate_proposed" or entry.payload["kernel_id"] not in published:
        return entry
    return dataclasses.replace(entry, payload={**entry.payload, "source": None})


def thin(
    row: Mapping[str, Any], published: Mapping[str, Mapping[str, Any]], replaced: Collection[str]
) -> dict[str, Any]:
    """A measurement without what need not be kept twice; whole, where it is published nowhere or published otherwise.

    Args:
        row: the measurement, as plain values.
        published: measurements of the corpus that holds everything, by id.
        replaced: kernels whose figures were measured again; what the old ones came from is not needed any more.
    """
    known = published.get(row["measurement_id"])
    same = known is not None and all(known.get(name) == value for name, value in row.items())
    if row["status"] == Status.OK and (same or (known is None and row["kernel_id"] in replaced)):
        return {name: value if name in KEPT else None for name, value in row.items()}
    return dict(row)


def take_out(dataset: Path, corrections: list[Path]) -> Any:
    """A measurement without what the dataset holds."""
    rows = published_rows(dataset)
    known = {key: to_dict(from_dict(Measurement, row)) for key, row in rows.items()}
    tables = [Corpus.open(folder).table("measurements", columns=["kernel_id"]) for folder in corrections]
    replaced = {kernel for table in tables for kernel in table.column("kernel_id").to_pylist()}

    def change(row: Mapping[str, Any]) -> dict[str, Any]:
        # Logs of older versions lack later fields.
        return thin(to_dict(from_dict(Measurement, row)), known, replaced)

    return change


def put_back(samples: Samples, known: Collection[str]) -> Any:
    """A measurement with what the dataset holds of it; as it is, where that is nothing."""

    def change(row: Mapping[str, Any]) -> dict[str, Any]:
        one = from_dict(Measurement, row)
        return to_dict(samples.rows([one])[0]) if one.measurement_id in known else dict(row)

    return change


def rewrite_log(folder: Path, change: Any, text: Callable[[LogEntry], LogEntry]) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        aside = Path(name)
        with (aside / "events.jsonl").open("wb") as file:
            for entry in read_log(folder):
                file.write(sealed(changed(text(entry), change).line()))
        packed = aside / "packed"
        pack(aside, packed)
        for part in found_files(packed):
            part.write_bytes(lzma.compress(lzma.decompress(part.read_bytes()), preset=9 | lzma.PRESET_EXTREME))
        # The old parts go only when the new ones are whole.
        for part in found_files(folder):
            part.unlink()
        for part in found_files(packed):
            part.rename(folder / part.name)


def changed(entry: LogEntry, change: Any) -> LogEntry:
    """A log's entry with its measurements changed."""
    if "measurements" not in entry.payload:
        return entry
    rows = [change(row) for row in entry.payload["measurements"]]
    return dataclasses.replace(entry, payload={**entry.payload, "measurements": rows})


def rewrite_corpus(folder: Path, change: Any) -> None:
    rows = [from_dict(Measurement, change(row)) for row in Corpus.open(folder).table("measurements").to_pylist()]
    with CorpusWriter(folder) as writer:
        writer.replace("measurements", rows)
    compact(folder)
    for name in CARD_FILES:
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
