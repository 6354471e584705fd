"""Time and memory of commands on corpora and boards that grow. Usage: scale.py OUT.json ROWS...

The shipped measurements, kernels and pairs are repeated under other ids until there are as many rows as asked for, and
the shipped entries under other names. Each command runs in a process of its own, whose peak is taken from the system.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

WRITE = "--write"
ENTRIES = (10, 20, 40)
QUERY = ["data", "query", "corpus", "--config", "measurements", "--where", "runtime_us < 10", "--sort", "runtime_us"]


def repeated(table: Any, number: int, columns: list[str]) -> Any:
    """A table under other ids: the first characters of each are those of a number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    mark = f"{number:08x}"
    for name in columns:
        changed = pc.binary_join_element_wise(mark, pc.utf8_slice_codeunits(table.column(name), 8), "")
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(at), changed.cast(table.schema.field(at).type))
    assert isinstance(table, pa.Table)
    return table


def write_corpus(folder: Path, rows: int) -> None:
    """A corpus with so many measurements, and kernels and pairs in proportion."""
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.corpus.writer import CorpusWriter

    shipped = Corpus.open(None)
    ids = {
        "measurements": ["measurement_id", "kernel_id"], "kernels": ["kernel_id"],
        "pairs": ["pair_id", "anchor_id", "candidate_id"],
    }  # fmt: skip
    tables = {name: shipped.table(name) for name in ("problems", "environments", *ids)}
    times = max(1, rows // tables["measurements"].num_rows)
    with CorpusWriter(folder, 1) as writer:
        for name in ("problems", "environments"):
            writer.append(name, tables[name])
        for number in range(times):
            for name, columns in ids.items():
                writer.append(name, repeated(tables[name], number, columns))


def write_entries(folder: Path, count: int) -> None:
    """A folder with so many entries, all alike but for their names."""
    from kbench.leaderboard.board import SUBMISSIONS

    for number in range(count):
        entry = Path(shutil.copytree(SUBMISSIONS / "benchmark-2" / "uniform", folder / f"entry{number}"))
        data = json.loads((entry / "submission.json").read_text())
        name = "".join("abcdefghjkmnpqtuxy"[int(digit, 16)] for digit in f"{number:05x}")
        (entry / "submission.json").write_text(json.dumps(data | {"name": f"entry {name}"}))


def timed(arguments: list[str], work: Path) -> dict[str, Any]:
    """Seconds and the largest memory of a command."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "kbench", *arguments]
    with subprocess.Popen(command, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        said = running.stderr.read()
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    cpu = used.ru_utime + used.ru_stime
    row = {"seconds": round(seconds, 1), "cpu_s": round(cpu, 1), "peak_mb": round(used.ru_maxrss / 1024)}
    return row | ({"failed": said.decode()[-300:]} if running.returncode else {})


def main() -> None:
    """Measure and write after each step, so that a run that is ended early leaves what it has."""
    if sys.argv[1] == WRITE:
        write_corpus(Path(sys.argv[2]), int(sys.argv[3]))
        return
    found: dict[str, Any] = {"measurements": {}, "entries": {}}
    out = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as base:
        work = Path(base)
        for rows in sys.argv[2:]:
            # In another process: the peak of a process begins with what its parent holds.
            subprocess.run([sys.executable, __file__, WRITE, str(work / "corpus"), rows], check=True)
            asking = ["evaluate", "--surrogate", "prior", "--dataset", "corpus", "--resamples", "100", "--no-report"]
            found["measurements"][rows] = {
                "info": timed(["data", "info", "corpus"], work),
                "query": timed(QUERY, work),
                "evaluate": timed([*asking, "--tracks", "forecast", "--out", "run"], work),
            }
            out.write_text(json.dumps(found, indent=1) + "\n")
            for name in ("corpus", "run"):
                shutil.rmtree(work / name, ignore_errors=True)
        for count in ENTRIES:
            write_entries(work / "entries", count)
            scoring = ["leaderboard", "score", "entries", "--resamples", "100", "--out", "results"]
            building = ["leaderboard", "build", "--submissions", "entries", "--cache", "cache", "--out", "site"]
            found["entries"][count] = {
                "check": timed(["leaderboard", "check", "entries"], work),
                "score": timed(scoring, work),
                "build": timed(building, work),
            }
            out.write_text(json.dumps(found, indent=1) + "\n")
            for name in ("entries", "results", "site", "cache"):
                shutil.rmtree(work / name, ignore_errors=True)


if __name__ == "__main__":
    main()
