"""Contribute: measure a fixed set of kernels on this GPU, some of them twice, and write the bundle to send.

The bundle is a corpus with the anchor kernels (anchors.json), their raw samples, the repeats, the references and the
environment. It is written whole when all of it is there; until then everything lies in a folder beside it, so that a
killed or interrupted contribution goes on.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kbench.harness.commands.measure import MeasureOptions, agreement, measure_files
from kbench.harness.commands.references import default_compiler, measure_references, open_device
from kbench.harness.commands.selection import Selection, measurable
from kbench.harness.device.gpu import Gpu
from kbench.harness.record import aggregate
from kbench.harness.settings import HarnessSettings
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.places import is_corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.storage.atomic import whole_folder
from kbench.loaders.storage.lines import read_records
from kbench.schemas import InfrastructureError, Kernel, Measurement, ReferenceTime, from_dict

ANCHORS = Path(__file__).with_name("anchors.json")
MEMORY_BYTES, SPARES = 5 << 29, 1
"""Memory of the GPU for what is measured, and workers in reserve. Each process takes memory for itself too, and
references allocate more in between: with 2.5 GiB here, an H200 had at most 7.4 GiB (8.0 GB) in use."""
REFERENCES = "references.jsonl"
EVERY = 5
"""One anchor in so many is measured a second time, by new processes."""
SHARES = (0.6, 0.8, 0.95)
"""Of the time, when the kernels, the repeats and the references stop; starting and writing take the rest."""
REPEATABLE = 0.02
"""Median of |log ratio| between two measurements above which a GPU is too unsteady to compare kernels on."""
FOLDERS = re.compile(r"(?<![\w.])~?(?:/[^\s/:'\"]+)+/")
"""The folders of a path: error messages of compilers carry them, and they name people."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """The result of a contribution: the bundle, and how steady the GPU was."""

    bundle: str | None
    """The folder to send; None where kernels are left to measure."""
    gpus: tuple[str, ...]
    kernels: int
    left: int
    """Anchor kernels that the time did not suffice for."""
    statuses: Mapping[str, int]
    references: int
    repeats: Mapping[str, Any]
    """How the second measurements agree with the first."""
    repeatable: bool
    dataset: Mapping[str, Any]
    """How the figures agree with the dataset's, where it has this GPU."""
    notes: tuple[str, ...]
    seconds: float


def measure_anchors(
    gpu: Gpu, out: Path, deadline_s: float, *, quiet: bool = False, stage: Callable[[str], object] = lambda _: None
) -> Contribution:
    """Measure the anchors and write the bundle.

    Args:
        gpu: the GPU to measure on.
        out: folder of the bundle.
        deadline_s: seconds after which nothing more is started; the same call goes on later.
        quiet: whether kernels are not counted while they are measured.
        stage: told what begins.
    """
    began = time.monotonic()
    work = out.resolve().with_name(f"{out.resolve().name}.unfinished")
    work.mkdir(parents=True, exist_ok=True)
    chosen = anchors()
    again = dict(itertools.islice(chosen.items(), 0, None, EVERY))
    stops = [began + share * deadline_s for share in SHARES]
    stage(f"measuring {len(chosen)} kernels on GPU {gpu}")
    notes = _measure(chosen, work / "kernels", gpu, stops[0], quiet)
    stage(f"measuring {len(again)} of them again")
    notes += _measure(again, work / "repeats", gpu, stops[1], quiet)
    stage("timing references")
    problems = sorted({one.kernel.problem_id for one in chosen.values()})
    notes += time_references(problems, work / REFERENCES, gpu, stops[2] - time.monotonic())
    first, second = (_recorded(work / name) for name in ("kernels", "repeats"))
    totals = {key: aggregate(group) for key, group in first.items()}
    references = read_records(work / REFERENCES, ReferenceTime) if (work / REFERENCES).exists() else []
    left = len(chosen) - len(first)
    if not left:
        write_bundle(work, out, references)
        shutil.rmtree(work)
    figures = {key: {one.gpu: dataclasses.asdict(one) | {"status": one.status.value}} for key, one in totals.items()}
    repeats = agreement(figures, second)
    unsteadiness = repeats["agreement"].get("median |log ratio|")
    return Contribution(
        bundle=None if left else str(out),
        gpus=tuple(sorted({one.gpu for one in totals.values()})),
        kernels=len(first),
        left=left,
        statuses=dict(Counter(one.status.value for one in totals.values())),
        references=len(references),
        repeats=repeats,
        repeatable=unsteadiness is not None and unsteadiness <= REPEATABLE,
        dataset=agreement({key: one.rows for key, one in chosen.items()}, first),
        notes=tuple(notes),
        seconds=time.monotonic() - began,
    )


def _measure(kernels: Selection, folder: Path, gpu: Gpu, stop: float, quiet: bool) -> list[str]:
    """Measure into a corpus of its own; a machine's failure is a note, because the rest is worth sending."""
    options = MeasureOptions(
        gpus=(gpu,), out=folder, deadline_s=max(1.0, stop - time.monotonic()), quiet=quiet,
        harness=HarnessSettings(max_memory_bytes=MEMORY_BYTES, spares=SPARES),
    )  # fmt: skip
    stored = {key: from_dict(Kernel, one.first) for key, one in kernels.items()}
    try:
        measure_files([(key, one.kernel) for key, one in kernels.items()], options, stored)
    except InfrastructureError as error:
        return [str(error)]
    return []


def _recorded(folder: Path) -> dict[str, list[Measurement]]:
    """The measurements of each kernel in a folder; none where nothing was measured."""
    groups: dict[str, list[Measurement]] = {}
    if is_corpus(folder):
        for row in Corpus.open(folder).table("measurements").to_pylist():
            groups.setdefault(row["kernel_id"], []).append(from_dict(Measurement, row))
    return groups


def anchors() -> Selection:
    """The anchor kernels, from the shipped dataset: always the same, whatever else the dataset holds."""
    listed = json.loads(ANCHORS.read_text(encoding="utf-8"))["kernels"]
    table = Corpus.open(None).table("kernels", where=pc.field("kernel_id").isin(listed))
    stored, _ = measurable(table.to_pylist())
    return {key: stored[key] for key in listed if key in stored}


def time_references(problems: Sequence[str], out: Path, gpu: Gpu, seconds: float) -> list[str]:
    """Time the references of the problems as far as the time goes; returns what failed, and why."""
    from kbench.benchmark.problems.registry import named

    if gpu.sms is not None or gpu.uuid is not None:
        return ["references are timed on whole GPUs alone"]
    if seconds <= 0:
        return ["the kernels left no time for references"]
    rows = measure_references(
        [named(name) for name in problems], out, open_device(gpu.index), seconds, default_compiler
    )
    return [row for row in rows if isinstance(row, str)]


def write_bundle(work: Path, out: Path, references: Sequence[ReferenceTime]) -> None:
    """One corpus of everything that was measured, without paths of this machine."""
    kernels, repeats = (Corpus.open(work / name) for name in ("kernels", "repeats"))
    with whole_folder(out) as folder, CorpusWriter(folder) as writer:
        for name in ("problems", "measurements", "environments"):
            writer.append(name, impersonal(kernels.table(name)))
        writer.append("kernels", impersonal(rootless(kernels.table("kernels"))))
        writer.append("repeats", impersonal(repeats.table("measurements")))
        known = set(kernels.table("environments")["env_id"].to_pylist())
        table = repeats.table("environments")
        writer.append("environments", table.filter(pa.array([one not in known for one in table["env_id"].to_pylist()])))
        writer.append("references", [_impersonal_reference(row) for row in references])


def rootless(table: pa.Table) -> pa.Table:
    """Kernels without parents that stayed behind; the dataset knows them, and joins rows by the kernel's id."""
    parents = table["parent_id"]
    return table.set_column(
        table.column_names.index("parent_id"),
        table.schema.field("parent_id"),
        pc.if_else(pc.is_in(parents, value_set=table["kernel_id"]), parents, pa.scalar(None, parents.type)),
    )


def impersonal(table: pa.Table) -> pa.Table:
    """Rows whose error messages name files without the folders they lie in."""
    if "error" not in table.column_names:
        return table
    texts = [text and FOLDERS.sub("", text) for text in table["error"].to_pylist()]
    place = table.column_names.index("error")
    return table.set_column(place, table.schema.field(place), pa.array(texts, table.schema.field(place).type))


def _impersonal_reference(row: ReferenceTime) -> ReferenceTime:
    compiled, vendor = (text and FOLDERS.sub("", text) for text in (row.compiled_error, row.vendor_error))
    return dataclasses.replace(row, compiled_error=compiled, vendor_error=vendor)
