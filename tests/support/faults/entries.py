"""Thousands of damaged and hostile submissions, each between two honest ones. Usage: entries.py OUT.json [COUNT]

Every entry is made from an honest one by a random change of its bytes, its metadata, its forecasts or its archive. None
may be accepted with another content than it states, stop the check of its neighbours, raise, or leave a process behind.
"""

import io
import json
import random
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ODD: list[Any] = [
    10**400, -1, 0, 1e308, float("nan"), float("inf"), None, True, "", "x" * 3000, "\ud800", "a\u202eb", [], {}, -0.0,
    "G\u043e\u043egle", [[[[]]]], {"a": 1}, "\x1b[2J", 2**70, "2026-99-99", "\u0000", ["\ud800"], [None],
    "https://\u0435xample.org",
]  # fmt: skip


def metadata(folder: Path, rng: random.Random) -> None:
    """One or two fields of submission.json are odd, gone, or new."""
    data = json.loads((folder / "submission.json").read_text())
    for _ in range(rng.randint(1, 2)):
        name = rng.choice(list(data))
        if rng.random() < 0.15:
            del data[name]
        else:
            data[name if rng.random() < 0.9 else f"{name}_"] = rng.choice(ODD)
    (folder / "submission.json").write_text(json.dumps(data), errors="replace")


def metadata_bytes(folder: Path, rng: random.Random) -> None:
    """Bytes of submission.json are changed, cut or repeated."""
    path = folder / "submission.json"
    path.write_bytes(_damaged(path.read_bytes(), rng))


def forecast_bytes(folder: Path, rng: random.Random) -> None:
    """Bytes of the Parquet file are changed, cut or repeated."""
    path = folder / "forecasts.parquet"
    path.write_bytes(_damaged(path.read_bytes(), rng))


def _damaged(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 3, 30))):
        at = rng.randrange(len(changed))
        changed[at] = rng.randrange(256)
    cut = rng.randrange(len(changed))
    return bytes(rng.choice((changed, changed[:cut], changed + changed[cut:], changed[cut:])))


def lines(folder: Path, rng: random.Random) -> None:
    """The forecasts as JSON lines, with an odd value, a line twice, or a line that is none."""
    import pyarrow.parquet as pq

    rows = pq.read_table(folder / "forecasts.parquet").to_pylist()
    (folder / "forecasts.parquet").unlink()
    row = rng.choice(rows)
    kind = rng.randrange(4)
    if kind == 0:
        rows.append(dict(row))
    elif kind == 1:
        row[rng.choice(list(row))] = rng.choice(ODD)
    elif kind == 2:
        row["probabilities"] = [rng.choice(ODD) for _ in range(8)]
    texts = [json.dumps(one) for one in rows]
    if kind == 3:
        texts.insert(
            rng.randrange(len(texts)), rng.choice(("null", "[" * 5000, "{", "\x00", '{"query_id": 3}', "1e999"))
        )
    (folder / "forecasts.jsonl").write_text("\n".join(texts), errors="replace")


def stray(folder: Path, rng: random.Random) -> None:
    """A file, folder or link that no submission has."""
    name = rng.choice(
        ("setup.py", ".bashrc", "forecasts.parquet.exe", "\u202egnp.py", "a" * 200, "conftest.py", "\x1b[2J")
    )
    kind = rng.randrange(3)
    if kind == 0:
        (folder / name).write_text("import os")
    elif kind == 1:
        (folder / name).mkdir()
    else:
        (folder / name).symlink_to("/etc/passwd")


FOLDERS: list[Callable[[Path, random.Random], None]] = [metadata, metadata_bytes, forecast_bytes, lines, stray]


def archive(folder: Path, rng: random.Random) -> Path:
    """The entry as an archive with a member that must not be there, an odd header, or damaged bytes."""
    path = folder.with_suffix(rng.choice((".zip", ".tar.gz")))
    name = rng.choice(("../x", "/etc/x", "a/b/c/submission.json", "submission.json", "setup.py", "C:\\x", "\x1b"))
    files = {one.name: one.read_bytes() for one in folder.iterdir()}
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as made:
            for one, data in files.items():
                made.writestr(one, data)
            if rng.random() < 0.6:
                made.writestr(f"{name} ", b"{}")
    else:
        with tarfile.open(path, "w:gz", compresslevel=1) as made_tar:
            for one, data in [*files.items(), (name, b"{}")]:
                info = tarfile.TarInfo(one)
                info.size = len(data)
                info.type = rng.choice((tarfile.REGTYPE,) * 6 + (tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.LNKTYPE))
                if rng.random() < 0.05:
                    info.pax_headers = {"comment": "x" * 10**6}
                made_tar.addfile(info, io.BytesIO(data))
    if rng.random() < 0.4:
        path.write_bytes(_damaged(path.read_bytes(), rng))
    shutil.rmtree(folder)
    return path


def spoil(honest: Path, to: Path, rng: random.Random) -> tuple[str, Path]:
    """A spoilt copy of an honest entry, and how it was spoilt."""
    shutil.copytree(honest, to)
    if rng.random() < 0.2:
        return "archive", archive(to, rng)
    change = rng.choice(FOLDERS)
    change(to, rng)
    return change.__name__, to


def attack(honest: Path, expected: Any, count: int, seed: int = 0) -> dict[str, Any]:
    """Check spoilt entries between honest ones; what came of it."""
    from kbench.leaderboard.board import check_all

    rng = random.Random(seed)
    kinds: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    stopped: list[str] = []
    for start in range(0, count, 20):
        with tempfile.TemporaryDirectory() as work:
            paths, how = [honest], {}
            for number in range(start, min(start + 20, count)):
                kind, path = spoil(honest, Path(work) / f"entry{number}", rng)
                kinds[kind] += 1
                how[str(path)] = kind
                paths.append(path)
            outcomes = dict(check_all(paths, expected))
            if not outcomes[str(honest)].ok or len(outcomes) != len(paths):
                stopped.append(f"batch {start}")
            # All are copies of one entry, so that each has the name of the honest one.
            alone = {path: [f for f in one.flaws if f.field != "name and version"] for path, one in outcomes.items()}
            accepted.update(how[path] for path, flaws in alone.items() if not flaws and path in how)
    return {"entries": count, "kinds": dict(kinds), "accepted": dict(accepted), "stopped": stopped}


def main() -> None:
    """Attack the check with spoilt copies of an entry."""
    # Modules that tests load by name lie beside this folder.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from beside import module_at

    from kbench.benchmark.evaluate.evaluate import evaluate_on
    from kbench.benchmark.evaluate.folder import write_folder
    from kbench.benchmark.evaluate.options import Options
    from kbench.loaders.corpus.corpus import Corpus

    count = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    with tempfile.TemporaryDirectory() as work:
        makers = module_at(Path(__file__).resolve().parents[2] / "benchmark/conftest.py")
        corpus = Corpus.open(makers.write_corpus(Path(work) / "data"))
        honest = Path(work) / "honest"
        write_folder(evaluate_on("uniform", corpus, Options(resamples=1)), honest)
        (honest / "results.json").unlink()
        found = attack(honest, None, count)
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
    sys.stderr.write(json.dumps(found) + "\n")
    sys.exit(bool(found["stopped"]))


if __name__ == "__main__":
    main()
