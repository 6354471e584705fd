"""Commands killed while they write. Usage: kill_commands.py OUT.json [SCALE [NAMES]]

Every command that writes runs in a process of its own and is killed with SIGKILL: before its n-th write (opening for
writing, mkdir, rename, link, unlink, fsync), for n from the first to the last, and after random delays. Then the same
command runs again. What stood there is kept or wholly replaced, every whole line of a log is kept and stands there
once, the result is that of a run that was not killed, and no process (after two seconds) or temporary file is left.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib
import json
import mmap
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from commands import TESTS, Command, begun, in_child, known, module_at, prepare, written

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a process that forks has no threads
WRITES = ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "os.truncate")
Files = dict[str, bytes]
LIMIT_S, GONE_S = 120.0, 2.0
REPEATED = ("exists", "entered", "closed")
"""What a command says that had done its work when it was killed."""
WARM = (
    "huggingface_hub", "polars", "pyarrow.dataset", "pyarrow.parquet", "scipy.stats", "tokenizers", "torch",
    "transformers",
    "kbench.benchmark.cli", "kbench.benchmark.evaluate.report", "kbench.benchmark.evaluate.evaluate",
    "kbench.benchmark.training.cli", "kbench.benchmark.training.lm.command",
    "kbench.leaderboard.season.life", "kbench.generation.assembly.assemble", "kbench.generation.campaign.drive",
    "kbench.generation.cli", "kbench.harness.cli", "kbench.harness.commands.references", "kbench.leaderboard.board",
    "kbench.leaderboard.cli", "kbench.loaders.cli",
)  # fmt: skip


class Runner:
    """Runs commands in forked children of a process that has imported what they need and has started nothing."""

    def __init__(self, base: Path) -> None:
        """Work under a folder."""
        self.base, self.number, self.said = base, 0, ""

    def run(
        self, arguments: list[str], work: Path, at: int = 0, delay_s: float | None = None,
        fault: Callable[[Path], None] | None = None,
    ) -> tuple[int, int, bool]:  # fmt: skip
        """Run a command, killed before its n-th write or after a delay, or on a machine with a fault.

        Returns:
            its exit code, the writes it came to, and whether a process outlived it.
        """
        self.number += 1
        (work / "tmp").mkdir(parents=True, exist_ok=True)
        mark, points = f"KILLED_RUN={os.getpid()}-{self.number}", mmap.mmap(-1, 8)
        # What it says goes through a pipe, which no limit on files stops.
        reading, said = os.pipe()
        fcntl.fcntl(said, fcntl.F_SETPIPE_SZ, 2**20)
        child = os.fork()
        if child == 0:
            os.dup2(said, 1)
            os.dup2(said, 2)
            try:
                self._be_command(arguments, work, mark, at, points, fault)
            except BaseException:  # noqa: BLE001 - a child never returns
                traceback.print_exc()
            finally:
                os._exit(99)
        ended = threading.Timer(LIMIT_S if delay_s is None else delay_s, os.kill, (child, signal.SIGKILL))
        ended.start()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ended.cancel()
        os.close(said)
        os.set_blocking(reading, False)
        self.said = ""
        with contextlib.suppress(BlockingIOError):
            self.said = os.read(reading, 2**20).decode(errors="replace")
        os.close(reading)
        return code, int.from_bytes(points[:8], "little"), not self._is_gone(child, mark.encode())

    def _be_command(
        self,
        arguments: list[str],
        work: Path,
        mark: str,
        at: int,
        points: mmap.mmap,
        fault: Callable[[Path], None] | None,
    ) -> None:
        os.setsid()
        os.environ |= {"TMPDIR": str(work / "tmp"), "KBENCH_HOME": str(work / "home"), **dict([mark.split("=")])}
        tempfile.tempdir = None
        os.chdir(work)
        seen = 0

        def count(event: str, args: tuple[Any, ...]) -> None:
            nonlocal seen
            writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            # renameat2 is reached by ctypes, just after the library is opened.
            if writes or event in WRITES or event == "fsync" or (event == "ctypes.dlopen" and args[0] is None):
                if event == "open" and str(args[0]).startswith(("/dev", "/proc")):
                    return
                seen += 1
                points[:8] = seen.to_bytes(8, "little")
                if seen == at:
                    os.kill(os.getpid(), signal.SIGKILL)

        if fault is not None:
            fault(work)
        fsync, home = os.fsync, os.getpid()
        os.fsync = lambda fd: (count("fsync", ()), fsync(fd))[1]
        sys.addaudithook(lambda event, args: count(event, args) if os.getpid() == home else None)
        sys.argv, code = ["kbench", *arguments], 70
        try:
            code = importlib.import_module("kbench.cli").main()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stdout.flush()
            atexit._run_exitfuncs()
            os._exit(code)

    def _is_gone(self, session: int, mark: bytes) -> bool:
        end = time.monotonic() + GONE_S
        while any(_belongs(int(path.name), session, mark) for path in Path("/proc").glob("[0-9]*")):
            if time.monotonic() > end:
                return False
            time.sleep(0.02)
        return True


def _belongs(process: int, session: int, mark: bytes) -> bool:
    try:
        if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
        return os.getsid(process) == session or mark in Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return False


def contents(work: Path) -> Files:
    """What a command has written, but for what a killed one left aside."""
    found = [path for path in work.glob("out*") for path in (path, *path.rglob("*")) if path.is_file()]
    names = {path.relative_to(work).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in names.items() if ".part" not in name}


def left_aside(work: Path) -> list[str]:
    """Temporary files and folders."""
    return [path.name for path in (*work.rglob("*.part"), *(work / "tmp").iterdir())]


def lines(files: Files) -> Counter[bytes]:
    """Whole lines of logs and stores; a file of requests holds what waits and is replaced."""
    logs = [data for name, data in files.items() if name.endswith(".jsonl") and not name.endswith("requests.jsonl")]
    return Counter(line for data in logs for line in data.splitlines(keepends=True) if line.endswith(b"\n"))


def in_effect(files: Files) -> Files:
    """What a reader of a corpus sees: nothing without its manifest; the card is written after it."""
    rows = {name: data for name, data in files.items() if name.endswith((".parquet", "manifest.json"))}
    return rows if "out/manifest.json" in rows else {}


def judge(one: Command, before: Files, cut: Files, after: Files, sound: Files, varies: set[str]) -> str | None:
    """What is wrong after a kill and another run, if anything."""

    def same(left: Files, right: Files) -> bool:
        return left.keys() == right.keys() and all(left[name] == right[name] for name in left.keys() - varies)

    if one.commits:
        cut, before = in_effect(cut), in_effect(before)
        whole = cut == before or same(cut, in_effect(sound))
    else:
        whole = cut == before or same(cut, sound)
    if not one.resumes and not whole:
        return f"half-written: {sorted(cut)}"
    if one.resumes and not one.takes_back and (lost := lines(cut) - lines(after)):
        return f"lost {sum(lost.values())} lines, such as {next(iter(lost))[:80]!r}"
    if doubled := [line for line, count in lines(after).items() if count > 1]:
        return f"doubled {doubled[0][:80]!r}"
    if lines(after).total() != lines(sound).total():
        return f"{lines(after).total()} lines, not {lines(sound).total()}"
    if not same(after, sound):
        other = sorted(name for name in after.keys() | sound.keys() if after.get(name) != sound.get(name))
        return f"not what an unharmed run writes: {other}"
    return None


def attack_command(name: str, one: Command, runner: Runner, kills: int, rng: random.Random) -> dict[str, Any]:
    """Kill one command at many points."""
    sound, points, took = [], 0, 0.0
    for number in range(2):
        work = begun(one, runner.base / "work" / f"sound-{number}")
        began = time.monotonic()
        code, points, outlived = runner.run(one.arguments(work), work)
        took = time.monotonic() - began
        if code != one.ends or outlived:
            raise SystemExit(f"{name} ends with {code}: {runner.said[-500:]}")
        sound.append(contents(work))
    varies = {key for key in sound[0] if sound[0][key] != sound[1].get(key)}
    found: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(kills):
        work = runner.base / "work" / "kill"
        shutil.rmtree(work, ignore_errors=True)
        if one.replaces and number % 2:
            shutil.copytree(runner.base / "work" / "sound-0", work, ignore=shutil.ignore_patterns("tmp"))
        else:
            begun(one, work)
        before = contents(work)
        by_delay = number % 3 == 2
        place = 1 + (points - 1) * number // max(1, kills - 1)
        delay_s = rng.uniform(0, took) if by_delay else None
        code, _, outlived = runner.run(one.arguments(work), work, 0 if by_delay else place, delay_s)
        cut = contents(work)
        found.update(kills=1, cut_short=code == -signal.SIGKILL, at_a_write=not by_delay, processes_left=outlived)
        problem = "a process outlived it" if outlived else None
        if not one.compares:
            files = left_aside(work)
        else:
            code, _, outlived = runner.run(one.arguments(work), work)
            refused = code in (1, 2) and any(word in runner.said for word in REPEATED) and cut
            if code != one.ends and not refused:
                problem = f"the next run ends with {code}: {runner.said[-300:]}"
            problem = problem or judge(one, before, cut, contents(work), sound[0], varies)
            files = left_aside(work)
        found.update(files_left=len(files))
        if problem or files:
            where = f"delay {delay_s:.3f}" if delay_s is not None else f"write {place}"
            wrong.append(f"{where} of {points}: {problem or files}")
    shutil.rmtree(runner.base / "work")
    return {**found, "writes_per_run": points, "run_s": round(took, 2), "wrong": len(wrong), "cases": wrong[:5]}


def warm() -> None:
    """Import what commands import, once; importing starts no thread that a fork would lose."""
    for name in WARM:
        try:
            importlib.import_module(name)
        except ImportError as error:
            sys.stderr.write(f"{error}\n")


def make_answers(runner: Runner) -> None:
    """A search whose requests wait, and the same with responses."""
    work, asking = runner.base / "answered", known(runner.base)["generate, batch requests"]
    if runner.run(asking.arguments(work), work)[0] != asking.ends:
        raise SystemExit(f"no request waits: {runner.said}")
    requests = [json.loads(line) for line in (work / "out-batch/requests.jsonl").read_text().splitlines()]
    with (work / "out-batch/responses.jsonl").open("w") as file:
        for number, request in enumerate(requests):
            text = f"```python\n{written(number)}```"
            file.write(json.dumps({"custom_id": request["custom_id"], "text": text}) + "\n")


def make_seasons(runner: Runner) -> None:
    """An open season, one with an entry, and measurements of its kernels."""
    base = runner.base
    opened, entered = base / "opened", base / "entered"
    board = ["--dataset", f"{base}/corpus"]
    for arguments in (
        ["open", "autumn", "--from-folder", f"{base}/fresh", *board],
        ["forecast", "autumn", "--surrogate", "length", *board, "--out", f"{base}/entry"],
    ):
        if runner.run(["leaderboard", "season", *arguments, "--seasons", f"{opened}/out"], opened)[0]:
            raise SystemExit(f"{arguments}: {runner.said}")
    shutil.copytree(opened, entered, ignore=shutil.ignore_patterns("tmp"))
    if runner.run(
        ["leaderboard", "season", "enter", "autumn", f"{base}/entry", "--seasons", f"{entered}/out"], entered
    )[0]:
        raise SystemExit(runner.said)
    season = module_at(TESTS / "leaderboard/test_season.py")
    in_child(lambda: season.measured(entered / "out" / "autumn", base / "timed"))


@contextlib.contextmanager
def ready_runner() -> Iterator[Runner]:
    """A runner, with what all commands read in its folder."""
    # Not a TemporaryDirectory: every child that ends would remove it.
    base = Path(tempfile.mkdtemp()).resolve()
    serving = prepare(base)
    try:
        runner = Runner(base)
        warm()
        (base / "entries").mkdir()
        ready = base / "ready"
        for arguments in (
            ["train", "prompts", f"{base}/corpus", "--model", f"{base}/weights", "--source-tokens", "24", "--out",
             f"{base}/prompts.npz.xz"],
            *(["evaluate", "--dataset", f"{base}/corpus", "--surrogate", name, "--out", f"{base}/entries/{name}",
               "--resamples", "20", "--no-report"] for name in ("length", "prior")),
            ["data", "export", f"{base}/corpus", "--split", "all", "--format", "files", "-o", f"{base}/files"],
            ["generate", "--from-folder", f"{base}/files", "--proposer", "llm", "--executor", "replay",
             "--recorded", f"{base}/corpus", "--out", f"{base}/run"],
            ["generate", "--problem", "gelu_tanh", "--backend", "triton", "--proposer", "genome", "--budget", "8",
             "--executor", "none", "--recorded", f"{base}/written", "--out", f"{base}/waiting"],
        ):  # fmt: skip
            if runner.run(arguments, ready)[0]:
                raise SystemExit(f"{arguments}: {runner.said}")
        make_answers(runner)
        make_seasons(runner)
        yield runner
    finally:
        os.kill(serving, signal.SIGKILL)
        os.waitpid(serving, 0)
        shutil.rmtree(base)


def attack(out: Path, scale: float, chosen: set[str], seed: int = 0) -> dict[str, dict[str, Any]]:
    """All commands, or those whose names are chosen; what came of each is written when it is known."""
    found: dict[str, dict[str, Any]] = json.loads(out.read_text()) if out.exists() and chosen else {}
    with ready_runner() as runner:
        for name, one in known(runner.base).items():
            if not chosen or name in chosen:
                kills = max(2, int(one.kills * scale))
                found[name] = attack_command(name, one, runner, kills, random.Random(seed))
                out.write_text(json.dumps(found, indent=1) + "\n")
                sys.stderr.write(f"{name}: {json.dumps(found[name])}\n")
    return found


def main() -> None:
    """Kill and write what came of it."""
    chosen = set(sys.argv[3].split(";")) if len(sys.argv) > 3 else set()
    found = attack(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0, chosen)
    sys.exit(any(one["wrong"] for one in found.values()))


if __name__ == "__main__":
    main()
