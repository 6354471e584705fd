"""Run an import: files in, a corpus with questions about its kernels out, whole or not at all.

Questions compare kernels with the reference, their parents, and others of their pool. Which questions exist must tell
nothing about the answer: kernels are drawn and paired by their ids, which are hashes, and so is the side a kernel
stands on. A kernel is in one edit or one pair at most.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from kbench.loaders.corpus.manifest import NAME as MANIFEST
from kbench.loaders.corpus.manifest import covering, read_manifest
from kbench.loaders.corpus.places import is_corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.importers import formats, gpu_forecasters
from kbench.loaders.importers.fields import RowError, plain
from kbench.loaders.importers.inputs import has_bom, require_files
from kbench.loaders.importers.reader import AGAIN, NEW, Context, ImportSettings, Reader, Report
from kbench.loaders.importers.rows import Row, question_row
from kbench.loaders.importers.sink import Sink
from kbench.loaders.importers.table import Table
from kbench.loaders.storage.atomic import whole_folder, write_atomically
from kbench.schemas import DataError, QuestionKind, UnknownNameError, UserError
from kbench.schemas.ids import content_hash

REPORT = "import.json"
SHARD_BYTES = 64 << 20
"""Bytes of rows held before a shard is written, so that an import's memory does not depend on how long kernels are."""


def import_files(
    form: str | None,
    paths: Sequence[Path],
    out: Path,
    settings: ImportSettings,
    advance: Callable[[int], object] = lambda _: None,
    *,
    replace: bool = False,
) -> Report:
    """Import files into a new corpus, which keeps the report as import.json; a format that is not named is found."""
    if not paths:
        raise UserError("no file given; name the files to import")
    require_files(paths)
    _check_settings(settings, paths)
    if form is not None and form not in formats.NAMES:
        raise UnknownNameError("import format", form, formats.NAMES)
    name = form or (Table.NAME if settings.columns else formats.sniff_all(paths))
    formats.refuse_misplaced(name, paths)
    if settings.problem is not None and not (name in formats.FORMATS and formats.FORMATS[name].PROBLEM_STATED):
        able = ", ".join(reader.NAME for reader in formats.FORMATS.values() if reader.PROBLEM_STATED)
        raise UserError(
            f"--problem changes nothing for format {name}; it is for {able}, and a table has --map problem="
        )
    context = Context(settings, Report(format=name), advance)
    for path in filter(has_bom, paths):
        context.note(f"files that begin with a byte order mark (BOM), which is not read: {plain(path.name)}")
    with whole_folder(out, replace=replace and is_corpus(out)) as folder:
        if name == gpu_forecasters.NAME:
            importer = gpu_forecasters.Importer(context)
            with CorpusWriter(folder) as writer, Sink(writer, context) as sink:
                importer.run(paths, sink)
                sink.flush()
                _refuse_empty(context)
                fingerprint = writer.commit()
            context.report.rows["forecasts"] = importer.forecasts.write(folder / "forecasts", fingerprint)
        else:
            _import_rows(name, paths, folder, context)
        report = json.dumps(context.report.to_json() | {"files": [plain(path.name) for path in paths]}, indent=1)
        write_atomically(folder / REPORT, (report + "\n").encode())
        write_atomically(folder / MANIFEST, covering(folder, read_manifest(folder)).to_json())
    return context.report


def _check_settings(settings: ImportSettings, paths: Sequence[Path]) -> None:
    """Refuse names that cannot be shown, and GPUs of files that are not imported."""
    stated = [("license", settings.license), *(("gpu", name) for name in (settings.gpu, *settings.gpus.values()))]
    for option, value in stated:
        if value is not None and not value.isprintable():
            raise UserError(f"--{option} is {value!r}: holds control characters; a name has none")
    strange = sorted(set(settings.gpus) - {str(path) for path in paths} - {path.name for path in paths})
    if strange:
        raise UserError(f"--gpu {strange[0]}={settings.gpus[strange[0]]} names no file of this import; check its name")


def _import_rows(name: str, paths: Sequence[Path], folder: Path, context: Context) -> None:
    form = formats.FORMATS[name]
    with (
        CorpusWriter(folder, shard_bytes=SHARD_BYTES) as writer,
        Sink(writer, context, over_workloads=form.OVER_WORKLOADS) as sink,
    ):
        for path in paths:
            read_file(form(path, context), sink)
        sink.flush()
        _refuse_empty(context)
        for row in questions_about(((named, row) for _, named, row in sink.kernels("pool")), context):
            sink.add("questions", row, (paths[0], row["question_id"]))
        sink.flush()


def read_file(reader: Reader, sink: Sink) -> None:
    """Hand the rows of every entry of a file to the sink; bad rows, and those that are left out, to the report."""
    path, context = reader.path, reader.context
    described: set[str] = set()
    for number, (place, record) in enumerate(reader.records(), 1):
        # Formats count from 0, from 1 and by line; a message counts the entries of the file, from 1.
        at = path, str(number) if isinstance(place, int) else f"{number} ({place})"
        try:
            entry = reader.entry(place, record)
            if isinstance(entry, str):
                context.became(path, entry)
                continue
            problem_id = entry.kernel["problem_id"]
            problem = None if problem_id in described else entry.problem()
        except RowError as error:
            context.bad(*at, error)
            continue
        if problem is not None:
            described.add(problem_id)
            sink.add("problems", problem, at)
        context.became(path, NEW if sink.add("kernels", entry.kernel, at) else AGAIN)
        for row in entry.measurements:
            if row["gpu"] is not None and row["status"] is not None:
                sink.add("measurements", row, at)
        if entry.event is not None:
            sink.add("events", entry.event, at)


def _refuse_empty(context: Context) -> None:
    if not context.report.rows["kernels"]:
        first = f" (the first bad row: {context.report.bad[0]})" if context.report.bad else ""
        raise DataError(f"nothing to import: the files hold no row of format {context.report.format}{first}")


PAIRS_PER_POOL = 200
"""Pairs between kernels of one problem on one GPU; a tuner's cache would give millions."""
FACTS = ("kernel_id", "parent_id", "problem_id", "family", "backend", "gpu", "split", "runtime_us", "speedup")


def questions_about(kernels: Iterable[tuple[bool, Row]], context: Context) -> Iterator[Row]:
    """The questions about kernels.

    Args:
        kernels: whether a kernel's text only names it, and its row; those of one problem and GPU together, so that
            one pool is held at a time.
        context: told how many kernels allow none, and why.
    """
    timed = _timed(kernels, context)
    for _, together in itertools.groupby(timed, key=lambda facts: (facts["problem_id"], facts["gpu"])):
        pool: list[Row] = []
        for facts in together:
            if facts["speedup"] is not None:
                yield _question(None, facts, QuestionKind.LEVEL, facts["speedup"])
            if facts["runtime_us"] is not None:
                _draw(pool, facts)
        drawn = sorted(pool, key=lambda facts: facts["kernel_id"])[: 2 * PAIRS_PER_POOL]
        drawn.sort(key=lambda facts: facts["backend"])
        for kind, anchor, candidate in (*_edits(drawn), *_pairs(drawn)):
            yield _question(anchor, candidate, kind, anchor["runtime_us"] / candidate["runtime_us"])


def _timed(kernels: Iterable[tuple[bool, Row]], context: Context) -> Iterator[Row]:
    """The facts of timed kernels that a pair can ask about."""
    for named, row in kernels:
        if row["runtime_us"] is None and row["speedup"] is None:
            continue
        reason = "their text is not known" if named else "their GPU is not known" if row["gpu"] is None else None
        if reason is None:
            yield {name: row[name] for name in FACTS}
        else:
            context.note(f"timed kernels in no question: {reason}")


def _draw(pool: list[Row], facts: Row) -> None:
    """Keep the kernels with the smallest ids, which are as good as drawn at random; a list stays short."""
    pool.append(facts)
    if len(pool) > 4 * PAIRS_PER_POOL:
        pool.sort(key=lambda one: one["kernel_id"])
        del pool[2 * PAIRS_PER_POOL :]


Ends = tuple[QuestionKind, Row, Row]
"""Kind, anchor and candidate."""


def _edits(drawn: list[Row]) -> Iterator[Ends]:
    """Kernels beside the one they were made from; both leave the list."""
    by_id = {facts["kernel_id"]: facts for facts in drawn}
    for candidate in list(by_id.values()):
        anchor = by_id.get(candidate["parent_id"])
        if anchor is None or anchor is candidate or candidate["kernel_id"] not in by_id:
            continue
        if anchor["backend"] == candidate["backend"]:
            for one in (anchor, candidate):
                del by_id[one["kernel_id"]]
                drawn.remove(one)
            yield QuestionKind.EDIT, anchor, candidate


def _pairs(drawn: Sequence[Row]) -> Iterator[Ends]:
    """Two kernels each, of one language."""
    for _, together in itertools.groupby(drawn, key=lambda facts: facts["backend"]):
        kernels = list(together)
        for one, other in zip(kernels[::2], kernels[1::2], strict=False):
            turned = int(content_hash("side", one["kernel_id"], other["kernel_id"]), 16) % 2
            yield QuestionKind.PAIR, *((other, one) if turned else (one, other))


def _question(anchor: Row | None, candidate: Row, kind: QuestionKind, speedup: float) -> Row:
    compared_with = "reference" if anchor is None else anchor["kernel_id"]
    question_id = content_hash("question", kind.value, compared_with, candidate["kernel_id"], candidate["gpu"], "all")
    pool = None if anchor is not None else f"{candidate['problem_id']} {candidate['backend']} on {candidate['gpu']}"
    return question_row(question_id, kind, anchor, candidate, speedup, pool=pool)
