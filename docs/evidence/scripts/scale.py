"""Time and memory of commands on corpora and boards that grow. Usage: scale.py OUT.json measurements|entries COUNT...

Measurements: the shipped kernels are repeated under other ids, each with up to seven times its shipped measurements,
which keep four of their samples. The questions are those drawn of the shipped kernels; those of training grow with the
kernels. Entries: one honest entry on a small corpus under other names, its forecasts moved a little.
Each command runs in a process of its own, whose peak is taken from the system. Everything lies in a temporary folder.
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

ROOT = Path(__file__).resolve().parents[3]
WRITE = "--write"
AGAIN, SAMPLES = 7, 4
"""How often a kernel was measured, against the shipped dataset, and how many samples of a measurement are kept."""
QUERY = ["data", "query", "corpus", "--config", "measurements", "--where", "runtime_us < 10", "--sort", "runtime_us"]
ASK = ["evaluate", "--surrogate", "prior", "--dataset", "corpus", "--resamples", "100", "--no-report", "--out"]


def repeated(table: Any, number: int, columns: list[str]) -> Any:
    """A table under other ids: the first characters of each are those of a number."""
    import pyarrow.compute as pc

    mark = f"{number:08x}"
    for name in columns:
        changed = pc.binary_join_element_wise(mark, pc.utf8_slice_codeunits(table.column(name), 8), "")
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(at), changed.cast(table.schema.field(at).type))
    return table


def write_corpus(folder: Path, rows: int) -> None:
    """A corpus with so many measurements, and kernels and training questions in proportion."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from kbench.benchmark.questions.draw import draw_questions
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.corpus.writer import CorpusWriter, config_table

    shipped = Corpus.open(None)
    kernels, measurements = shipped.table("kernels"), shipped.table("measurements")
    records = (shipped.select(name).records() for name in ("kernels", "measurements"))
    questions = config_table("questions", draw_questions(*records))
    training = questions.filter(pc.field("split") == "train")
    # Another origin than ours: what the card says of our own kernels is not what is measured here. The shipped dataset
    # has no normalised texts yet; those of the sources are as long.
    changed = {"origin": pa.array(["repeated"] * kernels.num_rows), "normalised": kernels.column("source")}
    for name, column in changed.items():
        kernels = kernels.set_column(kernels.column_names.index(name), kernels.schema.field(name), column)
    for name in ("samples_us", "anchor_us"):
        at, field = measurements.column_names.index(name), measurements.schema.field(name)
        short = pc.list_slice(measurements.column(name), 0, SAMPLES).cast(field.type)
        measurements = measurements.set_column(at, field, short)
    times = max(1, round(rows / measurements.num_rows))
    with CorpusWriter(folder, 1) as writer:
        for name in ("problems", "environments"):
            writer.append(name, shipped.table(name))
        for number in range(times):
            copy = number // AGAIN
            mine = measurements if not copy else repeated(measurements, copy, ["kernel_id"])
            writer.append("measurements", repeated(mine, number, ["measurement_id"]))
            if number % AGAIN:
                continue
            writer.append("kernels", kernels if not copy else repeated(kernels, copy, ["kernel_id"]))
            ids = ["question_id", "candidate_id", "anchor_id"]
            writer.append("questions", questions if not copy else repeated(training, copy, ids))


def write_entries(folder: Path, count: int) -> None:
    """A small corpus, and so many entries that answer its questions."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kbench.benchmark.evaluate.evaluate import evaluate_on
    from kbench.benchmark.evaluate.folder import write_folder
    from kbench.benchmark.evaluate.options import Options
    from kbench.loaders.corpus.corpus import Corpus

    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from beside import module_at

    module_at(ROOT / "tests/benchmark/conftest.py").write_corpus(folder / "data", kernels_each=8)
    first = folder / "first"
    write_folder(evaluate_on("length", Corpus.open(folder / "data"), Options(resamples=1)), first)
    table = pq.read_table(first / "forecasts.parquet")
    stated = json.loads((first / "submission.json").read_text().replace("unknown: ", "stated: "))
    at, field = table.column_names.index("probabilities"), table.schema.field("probabilities")
    answers = np.array(table.column(at).to_pylist())
    for number in range(count):
        entry = folder / "entries" / f"entry{number}"
        entry.mkdir(parents=True)
        moved = answers * np.random.default_rng(number).uniform(0.7, 1.3, answers.shape)
        moved /= moved.sum(axis=1, keepdims=True)
        pq.write_table(table.set_column(at, field, pa.array(moved.tolist(), field.type)), entry / "forecasts.parquet")
        # No two names are a letter apart: those would be refused as look-alikes.
        name = "".join("abcdefghjkmnpqtuxy"[int(digit, 16)] * 3 for digit in f"{number:05x}")
        (entry / "submission.json").write_text(json.dumps(stated | {"name": f"entry {name}"}))
    shutil.rmtree(first)


def timed(arguments: list[str], work: Path) -> dict[str, Any]:
    """Seconds and the largest memory of a command."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "kbench", *arguments]
    environment = os.environ | {"KBENCH_HOME": str(work / "home")}
    with subprocess.Popen(
        command, cwd=work, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as running:
        assert running.stderr is not None
        said = running.stderr.read()
        _, status, used = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    cpu = used.ru_utime + used.ru_stime
    row = {"seconds": round(seconds, 1), "cpu_s": round(cpu, 1), "peak_mb": round(used.ru_maxrss / 1024)}
    return row | ({"failed": said.decode()[-300:]} if running.returncode else {})


def commands(what: str) -> dict[str, list[str]]:
    """The commands to time by what they are called on the page, in the order they run in."""
    if what == "measurements":
        return {
            "info": ["data", "info", "corpus"],
            "query": QUERY,
            # The first one verifies every file, too.
            "evaluate": [*ASK, "first"],
            "evaluate again": [*ASK, "second"],
            "evaluate forecast": [*ASK, "third", "--tracks", "forecast"],
        }
    data = ["--dataset", "data"]
    building = ["leaderboard", "build", "--submissions", "entries", "--cache", "cache", *data, "--out", "site"]
    return {
        "check": ["leaderboard", "check", "entries", *data],
        "score": ["leaderboard", "score", "entries", *data, "--resamples", "100", "--out", "results"],
        "build": building,
        "build again": building,
    }


def main() -> None:
    """Measure and write after each step, so that a run that is ended early leaves what it has."""
    if sys.argv[1] == WRITE:
        make = {"measurements": write_corpus, "entries": write_entries}[sys.argv[2]]
        make(Path(sys.argv[3]), int(sys.argv[4]))
        return
    out, what = Path(sys.argv[1]).absolute(), sys.argv[2]
    found: dict[str, Any] = {}
    for count in sys.argv[3:]:
        found[count] = {}
        with tempfile.TemporaryDirectory() as base:
            work = Path(base)
            target = work / "corpus" if what == "measurements" else work
            # In another process: the peak of a process begins with what its parent holds.
            subprocess.run([sys.executable, __file__, WRITE, what, str(target), count], check=True)
            found[count]["bytes"] = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
            for name, arguments in commands(what).items():
                found[count][name] = timed(arguments, work)
                out.write_text(json.dumps(found, indent=1) + "\n")
                sys.stderr.write(f"{count} {name} {found[count][name]}\n")


if __name__ == "__main__":
    sys.exit(__doc__) if "--help" in sys.argv else main()
