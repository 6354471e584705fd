"""Damaged files over all importers: one line or a report, never a traceback, never a wrong row, never a folder left.

KBENCH_FUZZ=N multiplies the number of files.
"""

import contextlib
import gzip
import json
import math
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from kbench.loaders.corpus.corpus import load
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.importers import formats, gpu_forecasters
from kbench.loaders.importers.fields import PLAUSIBLE_US, RowError
from kbench.loaders.importers.kernelbench import CudaL1
from kbench.loaders.importers.reader import Context, ImportSettings
from kbench.loaders.importers.run import import_files, read_file
from kbench.loaders.importers.sink import Sink
from kbench.schemas import KbenchError

from .conftest import foreign, write_release

JSON_FORMATS = ("kernelbench-eval", "kernelbench-timing", "cuda-l1", "kernel-tuner", "t4", "ktt", "flashinfer-trace")
TIMES = int(os.environ.get("KBENCH_FUZZ", "1"))
MUTANTS_EACH = 60 * TIMES
PARQUET_MUTANTS_EACH = 12 * TIMES
WHOLE_EVERY = 10
"""Every so many mutants the whole import runs, files and all; the others stop where rows go to the writer."""
ANY_RUNTIME = [1.2**power for power in range(-20, 120)]
STRANGE: tuple[Any, ...] = (
    None, True, "", "x", -1, -2, 0, 1e20, 1e-9, float("nan"), float("inf"), 2**70, [], {}, [1], {"a": 1}, "\ud800",
    "1.5", 1500, "NaN", 1e308, 10**400, "Infinity", "\x1b[31m", "a\0b",
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def changed(value: Any, rng: random.Random) -> Any:
    """A copy with one place replaced, removed, doubled or renamed."""
    copy = json.loads(json.dumps(value))
    path = rng.choice(list(places(copy)))
    holder = copy
    for key in path[:-1]:
        holder = holder[key]
    kind = rng.randrange(4)
    if kind == 0 and isinstance(holder, dict):
        del holder[path[-1]]
    elif kind == 1 and isinstance(holder, dict):
        holder[f"{path[-1]}_ms"] = holder.pop(path[-1])
    elif kind == 2 and isinstance(holder[path[-1]], int | float) and not isinstance(holder[path[-1]], bool):
        holder[path[-1]] *= rng.choice([1000, 0.001, -1, 1e6])
    else:
        holder[path[-1]] = rng.choice(STRANGE)
    return copy


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, cut, doubled or dropped."""
    kind, at = rng.randrange(4), rng.randrange(len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + data[max(0, at - rng.randrange(64)) :]
    return data[:at] + data[at + rng.randrange(1, 64) :]


def json_mutant(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        packed = gzip.compress(data, 1)
        return packed if rng.random() < 0.3 else damaged(packed, rng)
    if rng.random() < 0.4:
        return damaged(data, rng)
    lines = data.decode().splitlines()
    if len(lines) > 1 and lines[0].endswith("}"):  # JSON lines
        at = rng.randrange(len(lines))
        lines[at] = json.dumps(changed(json.loads(lines[at]), rng))
        return "\n".join(lines).encode()
    return json.dumps(changed(json.loads(data), rng)).encode()


def check_rows(rows: list[dict[str, Any]], known: list[float]) -> None:
    """What no import may let through, whatever it was given.

    Args:
        rows: imported kernels.
        known: runtimes of the undamaged file; a runtime far from all of them has lost its unit on the way.
    """
    for row in rows:
        assert row["problem_id"]
        assert row["source"].strip()
        assert row["env_id"] is None
        assert row["license"] is None
        for name in ("runtime_us", "speedup"):
            assert row[name] is None or (row[name] > 0 and math.isfinite(row[name]))
            assert row[name] is None or row["status"] == "ok"
        assert (row["error"] is None) == (row["status"] in ("ok", None))
        runtime = row["runtime_us"]
        assert runtime is None or PLAUSIBLE_US[0] <= runtime <= PLAUSIBLE_US[1]
        assert runtime is None or any(abs(math.log(runtime / other)) < 0.3 for other in known), (runtime, known)


class Collector(CorpusWriter):
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.tables: dict[str, list[pa.Table]] = {}

    def append(self, name: str, rows: Any) -> None:
        self.tables.setdefault(name, []).append(rows)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [row for table in self.tables.get(name, []) for row in table.to_pylist()]


def read_rows(form: str, paths: list[Path], settings: ImportSettings) -> Collector:
    """The rows of files, through everything but the disk."""
    writer, context = Collector(), Context(settings)
    with Sink(writer, context) as sink:
        if form == gpu_forecasters.NAME:
            gpu_forecasters.Importer(context).run(paths, sink)
        else:
            read_file(formats.FORMATS[form](paths[0], context), sink)
    return writer


def attempt(form: str, paths: list[Path], out: Path, number: int, known: list[float], **stated: Any) -> bool:
    """Whether the files were imported; a refusal must be one short line and leave nothing."""
    settings = ImportSettings(on_bad_rows="skip" if number % 2 == 0 else "error", **stated)
    try:
        if number % WHOLE_EVERY and form != "table":
            rows = read_rows(form, paths, settings).rows("kernels")
        else:
            # The format must be told from the damaged file, too.
            import_files(None, paths, out, settings)
            rows = load(out).to_arrow().to_pylist()
    except KbenchError as error:
        text = str(error)
        assert text
        assert "\n" not in text, text
        assert len(text) < 700, text
        assert not out.exists()
        assert not list(out.parent.glob(f".{out.name}*")), "no folder is left behind"
        return False
    check_rows(rows, known)
    return bool(rows)


def runtimes(found: Collector) -> list[float]:
    """Runtimes of kernels and of single workloads: a kernel that loses a workload has the others' mean."""
    rows = [*found.rows("kernels"), *found.rows("measurements")]
    return [row["runtime_us"] for row in rows if row["runtime_us"] is not None]


@pytest.fixture
def quick_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Import without syncing files or writing cards, which fuzzing does not ask about."""
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("kbench.loaders.card.card.describe", lambda *_: {})


@pytest.mark.usefixtures("quick_writer")
@pytest.mark.parametrize("name", JSON_FORMATS)
def test_damaged_json_never_raises_and_never_lets_a_wrong_row_in(tmp_path: Path, name: str) -> None:
    make, file = foreign.MAKERS[name]
    path = make(tmp_path / file)
    whole, known = path.read_bytes(), runtimes(read_rows(name, [path], ImportSettings()))
    imported = 0
    for number in range(MUTANTS_EACH):
        rng = random.Random(f"{name}{number}")
        path.write_bytes(json_mutant(whole, rng))
        imported += attempt(name, [path], tmp_path / f"out{number}", number, known)
    assert imported > MUTANTS_EACH / 20, "fuzzing that only ever refuses proves little"


@pytest.mark.usefixtures("quick_writer")
def test_damaged_parquet_never_raises_and_never_lets_a_wrong_row_in(tmp_path: Path) -> None:
    files = [path for path in write_release(tmp_path / "release") if "combined" not in str(path)]
    export = foreign.gpu_mode(tmp_path / "submissions.parquet")
    originals = {path: path.read_bytes() for path in (*files, export)}
    for number in range(PARQUET_MUTANTS_EACH * 4):
        rng = random.Random(number)
        victim = export if number % 4 == 0 else rng.choice(files)
        victim.write_bytes(damaged(originals[victim], rng))
        paths = [files[0], victim] if "predictions" in str(victim) else [victim]
        form = "gpu-mode" if victim == export else "gpu-forecasters"
        # Parquet keeps no checksum of its pages: a flipped bit in a number is another number. Units are not at stake.
        attempt(form, paths, tmp_path / f"r{number}", number, ANY_RUNTIME)
        victim.write_bytes(originals[victim])


@pytest.mark.usefixtures("quick_writer")
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_damaged_tables_never_raise(tmp_path: Path, form: str) -> None:
    rows = [{"code": foreign.TRITON, "task": "add", "us": 5.0 + n, "gpu": "NVIDIA H100"} for n in range(4)]
    path = tmp_path / f"t.{form}"
    if form == "csv":
        pyarrow.csv.write_csv(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("\n".join(map(json.dumps, rows)))
    whole, columns = path.read_bytes(), {"source": "code", "problem": "task", "runtime_us": "us", "gpu": "gpu"}
    imported = []
    for number in range(MUTANTS_EACH):
        rng = random.Random(f"{form}{number}")
        path.write_bytes(damaged(whole, rng) if form == "csv" else json_mutant(whole, rng))
        imported.append(attempt("table", [path], tmp_path / f"out{number}", number, ANY_RUNTIME, columns=columns))
    assert {*imported} == {True, False}, "some damage is refused, some leaves rows"


def kernels_by_line(path: Path) -> dict[object, Any]:
    """The kernel of each line of a CUDA-L1 file; that of a bad row is not there."""
    reader, found = CudaL1(path, Context(ImportSettings(on_bad_rows="skip"))), {}
    for line, record in reader.records():
        with contextlib.suppress(RowError):
            entry = reader.entry(line, record)
            found[line] = entry if isinstance(entry, str) else entry.kernel
    return found


def test_rows_beside_a_damaged_one_stay_as_they_were(tmp_path: Path) -> None:
    """A bad row is left out; the others are exactly those of the whole file."""
    rows = foreign.cuda_l1_rows()
    path = tmp_path / "a.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    before = kernels_by_line(path)
    for number in range(60):
        rng = random.Random(number)
        at = rng.randrange(len(rows))
        lines = [json.dumps(changed(row, rng) if i == at else row) for i, row in enumerate(rows)]
        path.write_text("\n".join(lines) + "\n")
        after = kernels_by_line(path)
        assert {k: v for k, v in after.items() if k != at + 1} == {k: v for k, v in before.items() if k != at + 1}
