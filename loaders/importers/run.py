"""Run an import: files in, a corpus out, whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kbench.loaders.corpus import manifest
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.importers import formats
from kbench.loaders.importers.context import Context, Report, Settings
from kbench.loaders.importers.published import gpu_forecasters
from kbench.loaders.importers.sink import Sink
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import DataError, InfrastructureError, UserError

REPORT = "import.json"


def import_files(
    form: str | None,
    paths: Sequence[Path],
    out: Path,
    settings: Settings,
    advance: Callable[[int], object] = lambda _: None,
    *,
    replace: bool = False,
) -> Report:
    """Import files into a new corpus.

    Args:
        form: the format's name; told from the files when None.
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
    with whole_folder(out, replace=replace) as folder:
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


@contextlib.contextmanager
def whole_folder(out: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to build in that becomes `out` when all went well, and vanishes otherwise.

    Args:
        out: the folder to make.
        replace: whether a corpus that is there may be replaced.

    Raises:
        UserError: `out` holds something already, or its parent cannot be written.
        InfrastructureError: the disk is full or failing.
    """
    replace = replace and is_corpus(out)
    if out.exists() and not replace and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out {str(out)!r} exists and is not an empty folder; choose another or remove it")
    aside = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        aside.mkdir(parents=True)
        yield aside
        if replace:
            shutil.rmtree(out)
        elif out.exists():
            out.rmdir()
        aside.replace(out)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InfrastructureError(f"writing to {str(out)!r} failed: {reason}; nothing was kept") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def is_corpus(folder: Path) -> bool:
    """Whether a folder holds a corpus."""
    return (folder / manifest.NAME).is_file()
