"""Files that nobody should send, imported one by one. Usage: hostile_files.py OUT.json [PART OF A NAME]

Each import must end in a corpus or in one error of ours, whether bad rows stop it or are skipped, and leave no folder
behind.
"""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

HALF = "\ud800"
"""Half of a surrogate pair, which JSON can spell and no text can hold."""
TEXTS = {"problem": "task", "source": "code", "runtime_us": "us"}
SLOW_S = 60.0


def text(value: Any) -> bytes:
    """JSON."""
    return json.dumps(value).encode()


def cache(head: dict[str, Any] | None = None, entries: dict[str, Any] | None = None) -> bytes:
    """A Kernel Tuner cache."""
    found = {"schema_version": "1.0.0", "device_name": "A100", "kernel_name": "gemm", "tune_params_keys": ["a"]}
    return text(found | (head or {}) | {"cache": entries or {"1": {"a": 1, "time": 1.0}}})


def caches() -> Iterator[tuple[str, bytes]]:
    """Kernel Tuner."""
    for name, value in {
        "a list": ["ms"], "an object": {}, "a truth value": True, "a number": 1,
    }.items():  # fmt: skip
        yield f"unit is {name}", cache({"time_unit": value})
    for name, value in {"true": True, "a list": [1], "an object": {}, "-1": -1, "1e-300": 1e-300}.items():
        yield f"time is {name}", cache(entries={"1": {"a": 1, "time": value}})
    yield "times hold text", cache(entries={"1": {"a": 1, "time": 1.0, "times": ["1"]}})
    yield "times hold NaN", cache(entries={"1": {"a": 1, "time": 1.0, "times": [float("nan")]}})
    plain = cache().decode()
    yield "a key twice", plain.replace('"1": {', '"1": {"a": 1, "time": 2.0}, "1": {').encode()
    yield "the cache twice", plain.replace('"cache": {', '"cache": {"2": {"a": 2, "time": 2.0}}, "cache": {').encode()
    yield "the device twice", plain.replace('"device_name"', '"device_name": "H100", "device_name"').encode()
    yield "the device after the cache", (plain[:-1] + ', "device_name": "H100"}').encode()
    yield "the cache is a list", plain.replace('{"1": {"a": 1, "time": 1.0}}', "[1]").encode()
    yield "a parameter named twice", cache({"tune_params_keys": ["a", "a"]}, {"1,1": {"a": 1, "time": 1.0}})
    yield (
        "a parameter is half a character",
        cache({"tune_params_keys": [HALF]}, {"1": {HALF: 1, "time": 1.0}, "2": {HALF: 2, "time": 1.0}}),
    )
    yield "a value is half a character", cache(entries={HALF: {"a": HALF, "time": 1.0}})
    yield "the size is half a character", cache({"problem_size": HALF})
    yield "the size is nested", cache({"problem_size": [[1, [2]], {"a": None}]})
    yield "the kernel's name has 100,000 letters", cache({"kernel_name": "k" * 100_000})
    yield "the kernel's name is a path", cache({"kernel_name": "../../etc/passwd"})
    yield "a parameter is an object", cache(entries={"{'b': 1}": {"a": {"b": 1}, "time": 1.0}})


def t4() -> Iterator[tuple[str, str, bytes]]:
    """T4."""
    one = {"configuration": {"a": 1}, "invalidity": "correct", "measurements": [{"name": "time", "value": 1.0}]}
    yield "t4", "a parameter is half a character", text({"results": [one | {"configuration": {HALF: 1}}]})
    yield "t4", "results are an object", text({"results": {"0": one}})
    again = (
        text({"results": [one], "metadata": {"timeunit": "ms"}}).decode()[:-1] + f', "results": [{json.dumps(one)}]}}'
    )
    yield "t4", "results twice", again.encode()
    yield "t4", "the unit is a list", text({"results": [one], "metadata": {"timeunit": ["ms"]}})
    yield "t4", "runtimes are an object", text({"results": [one | {"times": {"runtimes": {"a": 1}}}]})
    yield "t4", "metadata is a list", text({"results": [one], "metadata": [1]})


def ktt() -> Iterator[tuple[str, str, bytes]]:
    """KTT."""
    tried = {"KernelName": "k", "Status": "Ok", "Configuration": [{"Name": "a", "Value": 1}], "TotalDuration": 5.0}
    stated = {"TimeUnit": "Milliseconds", "Device": "A100"}
    yield "ktt", "metadata after the results", text({"Results": [tried], "Metadata": stated})
    yield (
        "ktt",
        "metadata twice",
        (
            text({"Metadata": stated}).decode()[:-1] + ', "Metadata": {}, "Results": ' + json.dumps([tried]) + "}"
        ).encode(),
    )
    spoilt = tried | {"Configuration": [{"Name": HALF, "Value": 1}]}
    yield "ktt", "a parameter is half a character", text({"Metadata": stated, "Results": [spoilt]})
    yield (
        "ktt",
        "launches of 1e308",
        text({"Metadata": stated, "Results": [tried | {"ComputationResults": [{"Duration": 1e308}] * 2}]}),
    )
    yield "ktt", "the duration is true", text({"Metadata": stated, "Results": [tried | {"TotalDuration": True}]})


def traces() -> Iterator[tuple[str, str, bytes]]:
    """flashinfer-bench traces."""
    trace: dict[str, Any] = {
        "definition": "gemm", "workload": {"uuid": "u"}, "solution": "s",
        "evaluation": {"status": "PASSED", "environment": {"hardware": "A100"}, "performance": {"latency_ms": 1.0}},
    }  # fmt: skip
    yield "flashinfer-trace", "a workload of half a character", text(trace | {"workload": {HALF: 1}})
    yield "flashinfer-trace", "the solution is a path", text(trace | {"solution": "../../../etc/passwd"})
    yield "flashinfer-trace", "the solution has 10,000 letters", text(trace | {"solution": "s" * 10_000})
    yield "flashinfer-trace", "the definition is marks", text(trace | {"definition": "\u202e///"})
    evaluation = dict(trace["evaluation"])
    yield (
        "flashinfer-trace",
        "errors are lists",
        text(
            trace | {"evaluation": evaluation | {"correctness": {"max_absolute_error": [], "max_relative_error": {}}}}
        ),
    )
    yield "flashinfer-trace", "the log is a list", text(trace | {"evaluation": {"status": "TIMEOUT", "log": [1]}})


def cuda_l1() -> Iterator[tuple[str, str, bytes]]:
    """CUDA-L1."""
    line = {"level_id": 1, "task_id": 1, "ref_code": "x", "custom_code": "x = 1", "score_default": 2.0}
    for name, change in {
        "a level of 2**62": {"level_id": 2**62}, "a task below 0": {"task_id": -1}, "scores are text": {"scores": "2"},
        "a reference of 20 million letters": {"ref_code": "x" * 20_000_000},
        "a reference with escapes and NUL": {"ref_code": "\x1b[2J\0"},
        "code of brackets": {"custom_code": "(" * 900_000}, "code of signs": {"custom_code": "-" * 900_000 + "1"},
        "code of attributes": {"custom_code": "a" + ".b" * 400_000}, "code of a number": {"custom_code": "9" * 900_000},
        "code of sums": {"custom_code": "1" + "+1" * 400_000}, "code is half a character": {"custom_code": HALF},
        "code of empty lines": {"custom_code": "x = 1" + "\n" * 900_000},
        "code of comments and bare texts": {"custom_code": "# a\n''\n" * 120_000},
        "code of f-strings": {"custom_code": "f'{" * 200 + "}'" * 200},
        "code of one long text": {"custom_code": "x = " + "'a' " * 200_000},
        "code of tabs and blanks": {"custom_code": "if x:\n\ty\n        z\n" * 40_000},
        "code of line ends of all kinds": {"custom_code": "a\r\nb\rc\vd\fe\x1cf\x85g\u2028h\n" * 30_000},
        "C++ that never ends a comment": {"custom_code": "__global__ void k() { /*" + "/*" * 400_000},
        "C++ of raw texts": {"custom_code": '__global__ void k() { R"(' + ')" R"(' * 150_000},
    }.items():  # fmt: skip
        yield "cuda-l1", name, text(line | change) + b"\n"


def kernelbench() -> Iterator[tuple[str, str, bytes]]:
    """KernelBench results and timings."""
    record = {"compiled": True, "correctness": True, "runtime": 1.0}
    yield "kernelbench-eval", "a sample of half a character", text({"1": {HALF: record}})
    yield "kernelbench-eval", "a sample's name of 5,000 letters", text({"1": {"s" * 5000: record}})
    yield "kernelbench-eval", "a sample's name is a path", text({"1": {"../../../../etc/passwd": record}})
    yield "kernelbench-eval", "a problem in Arabic digits", text({"\u0663": record})
    yield "kernelbench-eval", "a problem twice", f'{{"1": {json.dumps(record)}, "1": {json.dumps(record)}}}'.encode()
    for name, value in {"a list": [1], "an object": {}, "text": "1", "1e400": 1e308 * 10}.items():
        yield "kernelbench-eval", f"the runtime is {name}", text({"1": record | {"runtime": value}})
    yield "kernelbench-eval", "statistics are a list", text({"1": record | {"runtime_stats": [1]}})
    yield "kernelbench-eval", "the result is text", text({"1": record | {"eval_result": "good"}})
    timed = {"mean": 1.0, "std": 0.1, "min": 0.9, "max": 1.1, "num_trials": 100, "hardware": "A100"}
    yield "kernelbench-timing", "a file named half a character", text({"level1": {HALF: timed}})
    yield (
        "kernelbench-timing",
        "a name twice",
        (f'{{"level1": {{"1_a.py": {json.dumps(timed)}, "1_a.py": {json.dumps(timed | {"mean": 1.05})}}}}}'.encode()),
    )
    yield (
        "kernelbench-timing",
        "a level twice",
        (f'{{"level1": {{"1_a.py": {json.dumps(timed)}}}, "level1": {{"1_a.py": {json.dumps(timed)}}}}}'.encode()),
    )


def tables() -> Iterator[tuple[str, bytes]]:
    """CSV, JSON lines and lists."""
    row = {"task": "t", "code": "x = 1", "us": 2.0}
    for name, change in {
        "the reference is a number": {"ref": 5}, "the reference is half a character": {"ref": HALF},
        "the problem is an object": {"task": {"a": 1}}, "the problem is half a character": {"task": HALF},
        "the problem is blanks": {"task": " \u2003"}, "the time is 1_000": {"us": "1_000"},
        "the time is an object": {"us": {}}, "the time is true": {"us": True},
        "the time has 400 digits": {"us": 10**400},
        "the time is text of 400 digits": {"us": "9" * 400}, "the code is bytes of another kind": {"code": ["x"]},
        "the code is blanks": {"code": "\u200b"},
    }.items():  # fmt: skip
        yield name, text(row | change) + b"\n"
    yield "lines of lists after a line of objects", text(row) + b"\n[1]\nnull\n3\n"
    yield "a list that ends early", b"[" + text(row) + b","
    yield "a list of 300,000 brackets", b"[" + b"[" * 300_000
    yield "an integer of 5,000 digits", b'{"task": "t", "code": "x", "us": ' + b"9" * 5000 + b"}\n"
    head = b"task,code,us\n"
    yield "CSV: a header alone", head
    yield "CSV: no header", b"t,x = 1,2\n"
    yield "CSV: old line ends", b"task,code,us\rt,x = 1,2\r"
    yield "CSV: semicolons", b"task;code;us\nt;x = 1;2\n"
    yield "CSV: a quote that never ends", head + b't,"x = 1,2\n' * 50_000
    yield "CSV: NUL", head + b"t,x\0,2\n"
    yield "CSV: a line of 40 MB with one wide character", head + b"t," + b"x" * 40_000_000 + "\U0001f600".encode()
    yield "CSV: 200,000 columns", b",".join(b"c%d" % n for n in range(200_000)) + b"\n" + b"," * 199_999
    yield "CSV: 200,000 values too many", head + b"t,x,2" + b",9" * 200_000
    yield "CSV: an empty name of a column", b"task,code,us,\nt,x = 1,2,3\n"
    yield "CSV: a decimal comma", head + b't,x = 1,"2,5"\n'
    yield "CSV: not UTF-8 after a good row", head + b"t,x = 1,2\nt,\xff,2\n"
    yield "gzip of gzip", gzip.compress(gzip.compress(head + b"t,x = 1,2\n"))
    yield "gzip with bytes behind it", gzip.compress(head + b"t,x = 1,2\n") + b"garbage"
    yield "gzip of nothing", gzip.compress(b"")
    yield "blanks alone", b" \n" * 1000


def parquet(columns: dict[str, Any] | pa.Table) -> bytes:
    """A Parquet file."""
    sink = io.BytesIO()
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), sink)
    return sink.getvalue()


def parquets() -> Iterator[tuple[str, bytes]]:
    """Parquet tables with types that no importer expects."""
    rest = {"task": ["t"], "us": [2.0]}
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    yield "text that is not UTF-8", parquet(rest | {"code": broken})
    far = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"))
    yield "a date in the year 146,000", parquet(rest | {"code": ["x"], "when": far})
    yield "the time is a date", parquet({"task": ["t"], "code": ["x"], "us": far})
    yield "the time is a duration", parquet({"task": ["t"], "code": ["x"], "us": pa.array([2**62], pa.duration("us"))})
    yield "the time is a decimal", parquet({"task": ["t"], "code": ["x"], "us": [decimal.Decimal("1E+3")]})
    yield (
        "the time is a float of 16 bits",
        parquet({"task": ["t"], "code": ["x"], "us": pa.array([2.0]).cast(pa.float16())}),
    )
    yield "the code is bytes", parquet(rest | {"code": [b"x = 1"]})
    yield "the code is a dictionary", parquet(rest | {"code": pa.array(["x"]).dictionary_encode()})
    yield "the code is large text", parquet(rest | {"code": pa.array(["x"], pa.large_string())})
    yield "the problem is a day", parquet({"task": [datetime.date(2026, 1, 1)], "code": ["x"], "us": [2.0]})
    yield (
        "a column twice",
        parquet(pa.Table.from_arrays([pa.array(["t"])] * 2 + [pa.array(["x"])], ["task", "task", "code"])),
    )
    yield "no column", parquet(pa.table({}))
    yield (
        "no row",
        parquet(
            {"task": pa.array([], pa.string()), "code": pa.array([], pa.string()), "us": pa.array([], pa.float64())}
        ),
    )
    yield (
        "a map with a key twice",
        parquet(rest | {"code": ["x"], "m": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))}),
    )
    nested: Any = "x"
    for _ in range(100):
        nested = [nested]
    yield "a list of a hundred levels", parquet(rest | {"code": [nested]})
    yield "5,000 columns", parquet(rest | {"code": ["x"]} | {f"c{n}": [1] for n in range(5000)})


def imports() -> Iterator[tuple[str, str, bytes, dict[str, str]]]:
    """Format, name, bytes and mapping of every file."""
    for name, data in caches():
        yield "kernel-tuner", name, data, {}
    for results in (t4, ktt, traces, cuda_l1, kernelbench):
        for form, name, data in results():
            yield form, name, data, {}
    for name, data in tables():
        columns = TEXTS | ({"reference": "ref"} if b'"ref"' in data else {})
        yield "table", name, data, columns
    for name, data in parquets():
        yield "table", f"Parquet: {name}", data, TEXTS


def imported(work: Path, form: str, data: bytes, columns: dict[str, str], on_bad_rows: str) -> dict[str, Any]:
    """What comes of an import."""
    from kbench.loaders.importers.context import ImportSettings
    from kbench.loaders.importers.run import import_files
    from kbench.schemas.errors import KbenchError

    path, out, began = work / "file.json", work / "out", time.monotonic()
    path.write_bytes(data)
    settings = ImportSettings(columns=columns, gpu="A100", unit="ms", on_bad_rows=on_bad_rows)
    try:
        report = import_files(form, [path], out, settings)
        fates = {fate: n for counts in report.sources.values() for fate, n in counts.items() if n}
        told, good = f"imported: {fates}", (out / "manifest.json").exists()
    except KbenchError as error:
        told = "refused: " + str(error).replace(str(work), "BASE")
        good = "\n" not in told and len(told) < 1000 and told.isprintable() and not out.exists()
    except Exception as error:  # noqa: BLE001 - what is looked for
        told, good = f"raised {type(error).__name__}: {error}"[:300], False
    took = time.monotonic() - began
    left = sorted(one.name for one in work.iterdir() if one.name not in ("file.json", "out"))
    shutil.rmtree(out, ignore_errors=True)
    return {"told": told[:300], "left": left, "seconds": round(took, 1), "good": good and not left and took < SLOW_S}


def write(found: dict[str, dict[str, Any]], path: Path) -> int:
    """Write what came of all cases, and say how many went wrong."""
    summary = {"tried": len(found), "wrong": sum(not one["good"] for one in found.values())}
    path.write_text(json.dumps(summary | {"cases": found}, indent=1) + "\n")
    sys.stderr.write(json.dumps(summary) + "\n")
    return summary["wrong"]


def main() -> None:
    """Try everything and write what came of it."""
    found: dict[str, dict[str, Any]] = {}
    chosen = sys.argv[2] if len(sys.argv) > 2 else ""
    with tempfile.TemporaryDirectory() as base:
        for form, name, data, columns in imports():
            for on_bad_rows in ("error", "skip"):
                key = f"{form}: {name}, bad rows: {on_bad_rows}"
                if chosen in key:
                    work = Path(base) / "import"
                    work.mkdir()
                    found[key] = imported(work, form, data, columns, on_bad_rows)
                    sys.stderr.write(f"{key}: {json.dumps(found[key])}\n")
                    shutil.rmtree(work)
    sys.exit(bool(write(found, Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
