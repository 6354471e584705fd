"""Processes killed at random moments. Usage: kills.py OUT.json [SCALE]

Writers are forked and killed with SIGKILL while they replace files together, swap whole folders, and append lines.
After each kill the folder must be what it was before or what it was to become, and the next writer must find nothing in
its way and leave nothing behind. `kbench evaluate` with a surrogate that forks is killed with every signal.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILES = 24
LOOKS = 600
"""How often, 0.1 s apart, we look whether what a killed command left is gone."""


def contents(folder: Path) -> dict[str, bytes]:
    """Everything in a folder but what a killed writer left aside."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".part"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def state(number: int) -> dict[str, bytes]:
    """Files that belong together."""
    return {f"data/entry-{at}.json": f"{number}\n".encode() * 2000 for at in range(FILES)}


def killed(work: Callable[[], object], rng: random.Random, longest_s: float) -> bool:
    """Fork, work, kill at a random moment; whether the work was cut short."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    time.sleep(rng.uniform(0, longest_s))
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return 1.2 * (time.perf_counter() - started)


def together(base: Path, count: int, rng: random.Random) -> dict[str, Any]:
    """`replace_together`: what results, sites, submissions and packs are written with."""
    from kbench.loaders.storage.atomic import replace_together

    folder, mixed, cut = base / "out", 0, 0
    replace_together(folder, dict(state(0)))
    longest_s = _timed(lambda: replace_together(folder, dict(state(0))))
    for number in range(1, count + 1):
        before = contents(folder)
        cut += killed(lambda n=number: replace_together(folder, dict(state(n))), rng, longest_s)
        mixed += contents(folder) not in (before, state(number))
    replace_together(folder, dict(state(-1)))
    return {"kills": count, "cut_short": cut, "wrong": mixed, "left": len(list(base.glob(".*")))}


def swapped(base: Path, count: int, rng: random.Random) -> dict[str, Any]:
    """`whole_folder`: what pulls and imports are written with."""
    from kbench.loaders.storage.atomic import whole_folder

    folder, wrong, cut = base / "corpus", 0, 0

    def write(number: int) -> None:
        with whole_folder(folder, replace=folder.exists()) as aside:
            for name, data in state(number).items():
                (aside / name).parent.mkdir(exist_ok=True)
                (aside / name).write_bytes(data)

    write(0)
    longest_s = _timed(lambda: write(0))
    for number in range(1, count + 1):
        before = contents(folder)
        cut += killed(lambda n=number: write(n), rng, longest_s)
        wrong += contents(folder) not in (before, state(number))
    write(-1)
    return {"kills": count, "cut_short": cut, "wrong": wrong, "left": len(list(base.glob(".*")))}


def appended(base: Path, count: int, rng: random.Random) -> dict[str, Any]:
    """`LineWriter`: what logs, stores of forecasts and replies are written with."""
    from kbench.loaders.storage.lines import LineWriter, parse_json, read_lines

    path, wrong, cut, kept = base / "lines.jsonl", 0, 0, 0

    def write() -> None:
        with LineWriter(path, parse_json) as lines:
            for at in range(kept, kept + 50):
                lines.append([json.dumps({"at": at, "text": "x" * 500})])

    for _ in range(count):
        cut += killed(write, rng, 0.03)
        rows = [row["at"] for row, _ in read_lines(path, parse_json)] if path.exists() else []
        wrong += rows != list(range(len(rows))) or len(rows) < kept
        kept = len(rows)
    return {"kills": count, "cut_short": cut, "wrong": wrong, "lines": kept}


SURROGATE = """
import os, time
class Sleeper:
    def forecast(self, queries):
        if os.fork() == 0:
            time.sleep(600)
        open(os.environ["STARTED"], "w").close()
        time.sleep(600)
"""


def commands(base: Path, count: int, rng: random.Random) -> dict[str, Any]:
    """`kbench evaluate` with a surrogate that forks, killed while it forecasts."""
    left, files = 0, 0
    (base / "sleeper.py").write_text(SURROGATE)
    for number in range(count):
        work = base / str(number)
        (work / "tmp").mkdir(parents=True)
        environment = os.environ | {"STARTED": str(work / "started"), "TMPDIR": str(work / "tmp")}
        command = [sys.executable, "-m", "kbench", "evaluate", "--surrogate", str(base / "sleeper.py")]
        command += ["--limit", "8", "--out", str(work / "out"), "--no-report"]
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as running:
            while not (work / "started").exists() and running.poll() is None:
                time.sleep(0.02)
            running.send_signal((signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)[number % 3])
        mark = f"STARTED={work / 'started'}".encode()
        for _ in range(LOOKS):
            if not _marked(mark) and not any((work / "tmp").iterdir()):
                break
            time.sleep(0.1)
        left += _marked(mark)
        files += len(list((work / "tmp").iterdir()))
    return {"kills": count, "processes_left": left, "files_left": files, "wrong": left + files}


def _marked(mark: bytes) -> int:
    found = 0
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            found += mark in entry.read_bytes()
        except OSError:
            continue
    return found


def attack(scale: float, seed: int = 0) -> dict[str, dict[str, Any]]:
    """All classes."""
    rng = random.Random(seed)
    found: dict[str, dict[str, Any]] = {}
    for work, count in ((together, 200), (swapped, 150), (appended, 150), (commands, 12)):
        with tempfile.TemporaryDirectory() as folder:
            if int(count * scale):
                found[work.__name__] = work(Path(folder), int(count * scale), rng)
    return found


def main() -> None:
    """Kill and write what came of it."""
    found = attack(float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
    sys.stderr.write(json.dumps(found) + "\n")
    sys.exit(any(one["wrong"] or one.get("left", 0) for one in found.values()))


if __name__ == "__main__":
    main()
