"""Run an import: files in, a corpus out, whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from kbench.loaders.corpus.places import is_corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.importers import formats
from kbench.loaders.importers.context import Context, ImportSettings, Report
from kbench.loaders.importers.published import gpu_forecasters
from kbench.loaders.importers.sink import Sink
from kbench.loaders.storage.atomic import whole_folder, write_atomically
from kbench.schemas import DataError, UserError

REPORT = "import.json"


def import_files(
    form: str | None,
    paths: Sequence[Path],
    out: Path,
    settings: ImportSettings,
    advance: Callable[[int], object] = lambda _: None,
    *,
    replace: bool = False,
) -> Report:
    """Import files into a new corpus.

    Args:
        form: the format's name; found from the files when None.
        paths: the files, all of one format.
        out: the corpus folder; it must not exist or be empty, unless it may be replaced.
        settings: what the caller states.
        advance: told how many bytes were read since the last call.
        replace: put the new corpus in the place of one that is there.

    Returns:
        what was found; also written into the corpus as import.json.

    Raises:
        UserError: the target cannot be used, or the format is unknown or unclear.
        DataError: a file is not of its format, a row is bad, or nothing could be imported.
    """
    if not paths:
        raise UserError("no file given; name the files to import")
    for path in paths:
        if not path.is_file():
            raise UserError(f"path {str(path)!r} does not exist; give the files to import")
    name = form or formats.sniff_all(paths)
    context = Context(settings, Report(format=name), advance)
    with whole_folder(out, replace=replace and is_corpus(out)) as folder:
        if name == gpu_forecasters.NAME:
            _import_release(paths, folder, context)
        else:
            _import_rows(name, paths, folder, context)
        report = json.dumps(context.report.to_json() | {"files": [path.name for path in paths]}, indent=1)
        write_atomically(folder / REPORT, (report + "\n").encode())
    return context.report


def _import_release(paths: Sequence[Path], folder: Path, context: Context) -> None:
    importer = gpu_forecasters.Importer(context)
    with CorpusWriter(folder) as writer, Sink(writer, context) as sink:
        importer.run(paths, sink)
        sink.flush()
        _refuse_empty(context)
        fingerprint = writer.commit()
    made = gpu_forecasters.write_extras(importer, folder, fingerprint)
    context.report.rows["forecasts"] = sum(made.values())


def _import_rows(name: str, paths: Sequence[Path], folder: Path, context: Context) -> None:
    importer = formats.importer(name)
    with CorpusWriter(folder) as writer, Sink(writer, context) as sink:
        for path in paths:
            for config, row, place in importer(path, context):
                sink.add(config, row, (path, place))
        sink.flush()
        _refuse_empty(context)


def _refuse_empty(context: Context) -> None:
    if not context.report.rows["kernels"]:
        first = f" (the first bad row: {context.report.bad[0]})" if context.report.bad else ""
        raise DataError(f"nothing to import: the files hold no row of format {context.report.format}{first}")
