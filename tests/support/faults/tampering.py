"""Corpora that are not what they say: each must be refused before anything is scored. Usage: tampering.py OUT.json

Every case changes a copy of a small corpus. Some keep all hashes that can be kept and repair the others, as somebody
would who knows the format.
"""

import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Case = Callable[[Path, random.Random], None]
FLIPS = 24


def _manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def _entries(folder: Path, config: str = "questions") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    manifest = _manifest(folder)
    return manifest, manifest["configs"][config]["files"]


def _store(folder: Path, manifest: dict[str, Any]) -> None:
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def flip(folder: Path, rng: random.Random) -> None:
    """One bit of a Parquet file, its time set back."""
    path = rng.choice(sorted(folder.rglob("*.parquet")))
    facts, data = path.stat(), bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def edit_rows(change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], repair: tuple[str, ...]) -> Case:
    """Change the rows of a file of questions and repair these fields of its manifest."""

    def case(folder: Path, rng: random.Random) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from kbench.loaders.corpus.configs import CONFIGS
        from kbench.loaders.corpus.fingerprint import rows_hash
        from kbench.loaders.storage.atomic import file_sha256

        manifest, entries = _entries(folder)
        entry = next(entry for entry in entries if entry["split"] == "test")
        path = folder / entry["path"]
        table = pq.ParquetFile(path).read()
        changed = pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema)
        pq.write_table(changed, path)
        true = {
            "bytes": path.stat().st_size, "sha256": file_sha256(path), "rows": changed.num_rows,
            "rows_hash": f"{rows_hash(changed, CONFIGS['questions'].later):064x}",
        }  # fmt: skip
        entry.update({name: true[name] for name in repair})
        _store(folder, manifest)

    return case


def _inverted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"bin": 9 - row["bin"], "speedup": 1 / row["speedup"]} for row in rows]


def edit_entry(**change: Any) -> Case:
    """Change what the manifest says of the first file of questions."""

    def case(folder: Path, rng: random.Random) -> None:
        manifest, entries = _entries(folder)
        for name, value in change.items():
            entries[0][name] = value(entries[0][name]) if callable(value) else value
        _store(folder, manifest)

    return case


def edit_manifest(change: Callable[[dict[str, Any]], object]) -> Case:
    """Change the manifest as a whole."""

    def case(folder: Path, rng: random.Random) -> None:
        manifest = _manifest(folder)
        change(manifest)
        _store(folder, manifest)

    return case


def _swap(folder: Path, rng: random.Random) -> None:
    first, *_, last = sorted(folder.rglob("*.parquet"))
    one, other = first.read_bytes(), last.read_bytes()
    first.write_bytes(other)
    last.write_bytes(one)


def _cut(folder: Path, rng: random.Random) -> None:
    path = rng.choice(sorted(folder.rglob("*.parquet")))
    path.write_bytes(path.read_bytes()[:-7])


def _gone(folder: Path, rng: random.Random) -> None:
    rng.choice(sorted(folder.rglob("*.parquet"))).unlink()


def replaced(pattern: str, make: Callable[[Path], object]) -> Case:
    """Something else is in the place of the first file of this name."""

    def case(folder: Path, rng: random.Random) -> None:
        path = sorted(folder.rglob(pattern))[0]
        path.unlink()
        make(path)

    return case


def beside(name: str, change: Callable[[bytes], bytes | None]) -> Case:
    """Change or remove a file that describes the corpus."""

    def case(folder: Path, rng: random.Random) -> None:
        data = change((folder / name).read_bytes())
        (folder / name).unlink() if data is None else (folder / name).write_bytes(data)

    return case


BYTES = ("bytes", "sha256")
ALL = (*BYTES, "rows", "rows_hash")
CASES: dict[str, Case] = {
    **{f"bit {n} flipped": flip for n in range(FLIPS)},
    "labels inverted": edit_rows(_inverted, ()),
    "labels inverted, file hash repaired": edit_rows(_inverted, BYTES),
    "labels inverted, all hashes repaired, fingerprint kept": edit_rows(_inverted, ALL),
    "half the rows dropped, file hash repaired": edit_rows(lambda rows: rows[::2], BYTES),
    "half the rows dropped, counts repaired": edit_rows(lambda rows: rows[::2], (*BYTES, "rows")),
    "half the rows dropped, all repaired": edit_rows(lambda rows: rows[::2], ALL),
    "a row twice": edit_rows(lambda rows: [*rows, rows[0]], (*BYTES, "rows")),
    "a train row moved to test": edit_rows(lambda rows: [row | {"split": "train"} for row in rows], BYTES),
    "facets emptied": edit_entry(values=lambda values: {name: [] for name in values}),
    "a facet invented": edit_entry(values=lambda values: values | {"problem_id": ["invented"]}),
    "a facet that is none": edit_entry(values=lambda values: values | {"speedup": ["1"]}),
    "a false row count": edit_entry(rows=lambda rows: rows + 1),
    "a huge row count": edit_entry(rows=10**30),
    "another split": edit_entry(split=lambda split: "test" if split != "test" else "train"),
    "a hash of zeros": edit_entry(sha256="0" * 64),
    "a row hash of zeros": edit_entry(rows_hash="0" * 64),
    "another fingerprint": edit_manifest(lambda m: m.update(fingerprint="0" * 32)),
    "no fingerprint": edit_manifest(lambda m: m.pop("fingerprint")),
    "a config left out": edit_manifest(lambda m: m["configs"].pop("questions")),
    "a file left out": edit_manifest(lambda m: m["configs"]["questions"]["files"].pop()),
    "a file listed twice": edit_manifest(
        lambda m: m["configs"]["questions"]["files"].append(m["configs"]["questions"]["files"][0])
    ),
    "a path outside": edit_entry(path="../outside.parquet"),
    "a path with half a character": edit_entry(path="questions/\ud800.parquet"),
    "a path of two names": edit_entry(path=lambda path: path.replace("/", "/./")),
    "a shard that is a link to itself": replaced("*.parquet", lambda path: path.symlink_to(path.name)),
    "a manifest of 5 GB": lambda folder, rng: os.truncate(folder / "manifest.json", 5 << 30),
    "a shard that is a pipe": replaced("*.parquet", os.mkfifo),
    "a manifest that is a pipe": replaced("manifest.json", os.mkfifo),
    "a card with another licence": beside("README.md", lambda data: data.replace(b"license", b"licence", 1)),
    "a card with a line more": beside("README.md", lambda data: data + b"\n"),
    "a card that is gone": beside("README.md", lambda data: None),
    "another description for machines": beside("croissant.json", lambda data: data.replace(b"kbench", b"kbemch", 1)),
    "other tasks": beside("eval.yaml", lambda data: data + b"# more\n"),
    "another report of its import": beside("import.json", lambda data: data.replace(b"1", b"2")),
    "another file of its owner": beside("notes/own.txt", lambda data: data + b"more"),
    "a companion outside": edit_manifest(lambda m: m["companions"].update({"../x": "0" * 64})),
    "a companion that is not there": edit_manifest(lambda m: m["companions"].update({"more.txt": "0" * 64})),
    "two files exchanged": _swap,
    "a file cut short": _cut,
    "a file missing": _gone,
}


def describe(folder: Path) -> None:
    """Add what an import and its owner leave beside a corpus, and have the manifest state it."""
    from kbench.loaders.corpus.manifest import covering, read_manifest

    (folder / "import.json").write_text('{"rows": 1}')
    (folder / "notes").mkdir()
    (folder / "notes" / "own.txt").write_text("mine")
    (folder / "manifest.json").write_text(covering(folder, read_manifest(folder)).to_json())


def try_case(name: str, corpus: Path, folder: Path) -> str | None:
    """Why a tampered copy of the corpus is refused; None when it is not."""
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.schemas import DataError

    copy = folder / "corpus"
    shutil.copytree(corpus, copy)
    Corpus.open(copy, verified=True)  # so that what was verified once must be noticed to have changed
    CASES[name](copy, random.Random(name))
    try:
        Corpus.open(copy, verified=True)
    except DataError as error:
        return str(error)
    return None


def main() -> None:
    """Try every case on the shipped dataset's questions and write what came of it."""
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.corpus.writer import CorpusWriter

    found = []
    with tempfile.TemporaryDirectory() as work:
        os.environ["KBENCH_HOME"] = str(Path(work) / "home")
        shipped = Corpus.open(None)
        small = Path(work) / "small"
        with CorpusWriter(small) as writer:
            for name in ("problems", "questions"):
                writer.append(name, shipped.table(name).slice(0, 100_000))
        describe(small)
        for name in CASES:
            with tempfile.TemporaryDirectory(dir=work) as folder:
                reason = try_case(name, small, Path(folder))
            found.append(
                {"case": name, "refused": reason is not None, "reason": (reason or "").rsplit("/", 1)[-1][:160]}
            )
    accepted = [row["case"] for row in found if not row["refused"]]
    Path(sys.argv[1]).write_text(
        json.dumps({"cases": len(found), "accepted": accepted, "rows": found}, indent=1) + "\n"
    )
    sys.exit(bool(accepted))


if __name__ == "__main__":
    main()
