"""Commands killed at random moments, and two of a kind at once. Usage: commands.py OUT.json [SHARE [SEED [NAME]]]

Each command runs in a fork on a copy of a small world: a corpus, a season with submissions, a table to import, a Hub of
its own, a recorded search, a tiny language model. Killed: what is there afterwards must be sound, no file and no
process may be left aside, and the same command again must end well. Two at once: both end with 0, or one is refused in
one line; whatever was acknowledged is there.
"""

import contextlib
import csv
import dataclasses
import functools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
REPOSITORY = "owner/corpus"
MARK = "KBENCH_ATTACKED"
"""Variable by which processes that a command started are found."""
CAMPAIGN = {"problems": ["gelu_tanh"], "backends": ["triton"], "methods": ["random", "evolve"], "proposer": "genome",
            "random_seeds": [0, 1, 2]}  # fmt: skip
MEASURED = 12
"""Measurements of each of its searches."""
STEPS = 4
LOOKS = 600
"""How often, 0.1 s apart, we look whether what a killed command left is gone."""
MADE = ("results", "site", "cache", "imported", "merged", "run", "pulled", "both", "assembled", "searched", "trained",
        "model", "later", "summer")  # fmt: skip
"""Folders that commands make."""
WHOLE = ("rows.jsonl", "prompts.jsonl")
"""Files that commands make; kept beside the folders they are tried in when nobody killed the command."""
MAPPING = "source=code,problem=task,runtime_us=us,gpu=card"
Arguments = list[str]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A command, two forms of it that get in each other's way, and whether what it changes is sound."""

    name: str
    first: Arguments
    second: Arguments
    sound: Callable[[Path], bool]
    both: Callable[[Path, Sequence[bool]], bool]
    """Whether all that was acknowledged is there, by which of the two was."""
    program: Callable[[Path, Arguments], object] | None = None
    """What runs instead of `kbench`, where that is no command or would need a GPU."""


def fork(
    arguments: Arguments, work: Path, log: Path, program: Callable[[Path, Arguments], object] | None = None
) -> int:
    """Run the command in a fork; its process."""
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        os.chdir(work)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        signal.alarm(3000)
        os.environ[MARK] = str(work)
        (program or kbench)(work, arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def kbench(work: Path, arguments: Arguments) -> None:
    """The command line."""
    from kbench.__main__ import main

    sys.argv = ["kbench", *arguments]
    main()


def train(work: Path, arguments: Arguments) -> None:
    """The example that trains a language model, on a CPU."""
    import torch
    from beside import module_at

    from kbench.schemas import UserError

    torch.set_num_threads(1)
    try:
        module_at(ROOT / "examples/train_lm.py").main(arguments, standalone_mode=False)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)


def watch(work: Path, arguments: Arguments) -> None:
    """`measure --watch` on a CPU, until the file was measured once."""
    from kbench.harness.commands import watch as watching
    from kbench.harness.commands.measure import MeasureOptions
    from kbench.harness.harness import Harness
    from kbench.harness.kernel.sources import read_kernel

    def shown(*row: object) -> str:
        raise KeyboardInterrupt

    path = work / arguments[0]
    harness = Harness(gpu=None, cache=work / "built", workloads=("tiny",), builders=1)
    watching.make_harness = lambda options: harness
    read = functools.partial(read_kernel, path, "gelu_tanh")
    watching.watch(path, read, "gelu_tanh", MeasureOptions(quiet=True), shown, sys.stderr.write)


def finished(process: int) -> int:
    """How a fork ended."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def in_fork(check: Callable[[], object]) -> bool:
    """Whether a function says so, run in a fork: threads that it starts, as polars does, would hang the next fork."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            code = 0 if check() else 1
        finally:
            sys.stderr.flush()
            os._exit(code)
    code = finished(child)
    assert code in (0, 1), code
    return code == 0


def prepare(world: Path) -> bool:
    """The small world."""
    from beside import module_at

    from kbench.benchmark.evaluate.evaluate import evaluate_on
    from kbench.benchmark.evaluate.folder import write_folder
    from kbench.benchmark.evaluate.options import Options
    from kbench.loaders.corpus.corpus import Corpus

    module_at(ROOT / "tests/benchmark/conftest.py").write_corpus(world / "data", kernels_each=8)
    module_at(ROOT / "tests/loaders/conftest.py").write_corpus(world / "ours", 24)
    shutil.copytree(world / "data", world / "more")
    season = module_at(ROOT / "tests/leaderboard/test_season.py")
    corpus = Corpus.open(world / "data")
    public = season.write_dataset(world / "public")
    assert season.run("open", world / "spring", season.propose(world / "proposed"), dataset=public).exit_code == 0
    for name in ("prior", "length"):
        out = ("--out", world / f"season-{name}")
        made = season.run("forecast", world / "spring", "--surrogate", name, *out, dataset=public)
        assert made.exit_code == 0, made.output
        write_folder(evaluate_on(name, corpus, Options(resamples=1)), world / "entries" / name)
        metadata = world / "entries" / name / "submission.json"
        metadata.write_text(metadata.read_text().replace("unknown: ", "stated: "))
    season.measured(world / "spring", world / "measured")
    searches(world)
    module_at(ROOT / "tests/benchmark/test_train_lm.py").write_weights(world / "weights")
    shutil.copyfile(ROOT / "tests/harness/kernels/gelu_triton.py", world / "kernel.py")
    with (world / "table.csv").open("w", newline="") as file:
        rows = [[f"def f(): return {n}", "gelu_tanh", n + 0.5, "H200"] for n in range(400)]
        csv.writer(file).writerows([["code", "task", "us", "card"], *rows])
    return True


def small_genomes() -> tuple[Any, Any]:
    """The proposer of the tests in the place of ours, and the module that it comes from."""
    from kbench.generation.proposers import mixed
    from kbench.generation.proposers.genome.proposer import GenomeProposer

    sys.path.insert(0, str(ROOT / "tests"))
    from generation import conftest

    proposer = GenomeProposer({conftest.FAMILY.name: conftest.FAMILY})
    mixed.PROPOSERS["genome"] = lambda: proposer  # type: ignore[attr-defined]
    return proposer, conftest


def searches(world: Path) -> None:
    """A campaign, and a search that measured all its kernels."""
    from kbench.generation.campaign.drive import drive
    from kbench.generation.search.settings import Budget

    proposer, conftest = small_genomes()
    recorded = conftest.recording()
    settings = conftest.settings_for("random", batch=200, budget=Budget(measurements=3 * len(recorded)))
    drive(world / "recorded", [settings], conftest.replaying(recorded, proposer))
    (world / "campaign.json").write_text(json.dumps(CAMPAIGN))


def campaign_is_sound(work: Path) -> bool:
    """Its log can be read, and no search has spent more than it may."""
    from kbench.generation.campaign.drive import recorded_states

    spent = [run.charge.measurements for run in recorded_states(work / "searched").values()]
    return all(count <= MEASURED for count in spent)


def campaign_is_done(work: Path, done: Sequence[bool]) -> bool:
    """Every search has spent what it may, once."""
    from kbench.generation.campaign.drive import recorded_states

    spent = [run.charge.measurements for run in recorded_states(work / "searched").values()]
    return any(done) and spent == [MEASURED] * 6


def training_is_sound(work: Path) -> bool:
    """Its log has every step once, and there is no model or a whole one."""
    log, model = work / "trained/log.jsonl", work / "trained/model"
    lines = log.read_text().splitlines() if log.exists() else []
    whole = {"config.json", "model.safetensors", "tokenizer.json"}
    return [json.loads(line)["step"] for line in lines] == list(range(1, len(lines) + 1)) and (
        not model.exists() or whole <= {path.name for path in model.iterdir()}
    )


def training_is_done(work: Path, done: Sequence[bool]) -> bool:
    """One has trained to the end."""
    lines = (work / "trained/log.jsonl").read_text().splitlines()
    return any(done) and len(lines) == STEPS and (work / "trained/model").exists()


def season_is_sound(work: Path) -> bool:
    """Its record can be read, its entries are there, and results where it is closed."""
    from kbench.leaderboard.season_record import read_entry_files, read_season

    season = read_season(work / "spring")
    entries = {one.entry_id for one in season.entries} == set(read_entry_files(work / "spring"))
    closed = (season.closing is not None) == (work / "spring/answers.parquet").is_file()
    return entries and closed


def entered(work: Path, done: Sequence[bool]) -> bool:
    """As many entries as were acknowledged."""
    from kbench.leaderboard.season_record import read_season

    return len(read_season(work / "spring").entries) == sum(done)


def opened(work: Path) -> bool:
    """There is no new season, or a whole one."""
    from kbench.leaderboard.season_record import read_season

    return not (work / "later/summer").exists() or read_season(work / "later/summer").queries > 0


def corpus_or_nothing(name: str) -> Callable[[Path], bool]:
    """A folder that is not there, or is a whole corpus."""

    def sound(work: Path) -> bool:
        from kbench.loaders.corpus.corpus import Corpus

        return not (work / name).exists() or bool(Corpus.open(work / name, verified=True).configs)

    return sound


def results(work: Path) -> bool:
    """Every file is a whole result."""
    from kbench.leaderboard.scoring.results import read_results

    return all(read_results(path).scores for path in (work / "results").glob("*.json"))


def one_or_both(name: str) -> Callable[[Path, Sequence[bool]], bool]:
    """One was acknowledged at least, and what it made is there."""
    return lambda work, done: any(done) and (work / name).exists()


def kinds(hub: Any) -> list[Kind]:
    """All of them."""
    data, out = ["--dataset", "data"], ["--out"]
    importing = ["data", "import", "table.csv", "--map", MAPPING, "--license", "MIT", *out, "imported"]
    scoring = ["leaderboard", "score", *data, "--resamples", "20", *out, "results"]
    building = ["leaderboard", "build", "--submissions", "entries", "--cache", "cache", *data, *out, "site"]
    exporting = ["data", "export", "data", "--config", "kernels", *out, "rows.jsonl"]
    merging = ["data", "import", "data", "more", *out, "merged"]
    closing = ["leaderboard", "season", "close", "./spring", "--measurements", "measured", "--dataset", "public"]
    opening = ["leaderboard", "season", "open", "later/summer", "proposed", "--dataset", "public"]
    entering = ["leaderboard", "season", "enter", "./spring"]
    asking = ["evaluate", "--surrogate", "prior", *data, "--resamples", "20", "--no-report", *out, "run"]
    pulling = ["data", "fetch", REPOSITORY, *out, "pulled"]
    pushing = ["data", "push", "owner/pushed", "--path", "ours"]
    assembling = ["data", "assemble", "recorded", *out, "assembled"]
    replaying = ["--executor", "replay", "--recorded", "recorded", *out, "searched"]
    searching = ["generate", "--campaign", "campaign.json", *replaying]
    teaching = ["data", "export", "data", "--format", "trl-prompt", *out, "prompts.jsonl"]
    sizes = {"--steps": STEPS, "--batch": 4, "--group": 3, "--warm-up-pairs": 10, "--validation-prompts": 8}
    given = {"--model": "weights", "--dataset": "data", "--out": "trained", "--objective": "+brier", "--device": "cpu"}
    given |= {name: str(value) for name, value in sizes.items()} | {"--source-tokens": "24", "--save-every": "1"}
    training = [part for pair in given.items() for part in pair]

    def file_or_nothing(name: str) -> Callable[[Path], bool]:
        def sound(work: Path) -> bool:
            path = work / name
            return not path.exists() or path.read_bytes() == (work.parents[1] / name).read_bytes()

        return sound

    def scored(work: Path, done: Sequence[bool]) -> bool:
        return len(list((work / "results").glob("*.json"))) == sum(done)

    def site_or_nothing(work: Path) -> bool:
        return not (work / "site").exists() or (work / "site/index.html").is_file()

    def pushed(work: Path) -> bool:
        commits = hub.commits.get("owner/pushed", [])
        # A repository begins with a commit of the Hub's own.
        return all("manifest.json" in files for _, files in commits if any(not name.startswith(".") for name in files))

    here = corpus_or_nothing
    return [
        Kind("season open", opening, opening, opened, lambda work, done: sum(done) == 1),
        Kind("season enter", [*entering, "season-prior"], [*entering, "season-length"], season_is_sound, entered),
        Kind("season close", closing, closing, season_is_sound, lambda work, done: sum(done) == 1),
        Kind("season enter and close", [*entering, "season-prior"], closing, season_is_sound,
             lambda work, done: entered(work, done[:1]) and any(done)),
        Kind("leaderboard score", [*scoring, "entries/prior"], [*scoring, "entries/length"], results, scored),
        Kind("leaderboard build", building, building, site_or_nothing, one_or_both("site")),
        Kind("data import", importing, importing, here("imported"), lambda work, done: sum(done) == 1),
        Kind("data export", exporting, exporting, file_or_nothing("rows.jsonl"), one_or_both("rows.jsonl")),
        Kind("training data", teaching, teaching, file_or_nothing("prompts.jsonl"), one_or_both("prompts.jsonl")),
        Kind("data import of corpora", merging, merging, here("merged"), lambda work, done: sum(done) == 1),
        Kind("evaluate", asking, asking, lambda work: True, one_or_both("run")),
        Kind("data fetch", pulling, pulling, here("pulled"), lambda work, done: sum(done) == 1),
        Kind("data push", pushing, pushing, pushed, lambda work, done: any(done) and pushed(work)),
        Kind("import and pull", [*importing[:-1], "both"], [*pulling[:-1], "both"], here("both"),
             lambda work, done: sum(done) == 1),
        Kind("data assemble", assembling, assembling, here("assembled"), lambda work, done: any(done)),
        Kind("campaign", searching, searching, campaign_is_sound, campaign_is_done),
        Kind("train", training, training, training_is_sound, training_is_done, train),
        Kind("measure --watch", ["kernel.py"], ["kernel.py"], lambda work: True, lambda work, done: all(done), watch),
    ]  # fmt: skip


def is_bare(folder: Path) -> bool:
    """Whether nothing is in a folder, or empty files alone."""
    return not any(path.is_file() and path.stat().st_size for path in folder.rglob("*"))


def started(work: Path) -> list[int]:
    """Processes that a command in this folder started and left running."""
    mark, found = f"{MARK}={work}\0".encode(), []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            found += [int(entry.parent.name)] * (mark in entry.read_bytes())
    return found


def is_sound(kind: Kind, work: Path) -> bool:
    """Whether what a command changes is sound; what cannot be read is not."""
    from kbench.schemas import KbenchError

    def sound() -> bool:
        try:
            return kind.sound(work)
        except (KbenchError, OSError, ValueError) as error:
            sys.stderr.write(f"{kind.name}: {error!r}\n")
            return False

    return in_fork(sound)


def left_aside(work: Path) -> list[str]:
    """Files, folders and processes that a killed command should have taken with it, a while later."""
    found = ["not looked"]
    for _ in range(LOOKS):
        if not found:
            break
        time.sleep(0.1)
        with contextlib.suppress(FileNotFoundError):  # it is being removed
            found = [path.name for path in work.rglob(".*.part") if path.is_dir()]
            found += [path.name for path in work.rglob("*") if path.is_dir() and path.name in MADE and is_bare(path)]
            found += [f"process {one}" for one in started(work)]
    return found


def kill(kind: Kind, work: Path, longest_s: float, number: signal.Signals, rng: random.Random) -> dict[str, Any]:
    """Kill the command, look, and run it again; or run it again at once, while what it left is being removed."""
    at_once = rng.random() < 0.5
    process = fork(kind.first, work, work.parent / "log", kind.program)
    time.sleep(rng.uniform(0.05, longest_s))
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)
    cut, sound, left = finished(process) != 0, True, []
    if not at_once:
        left, sound = left_aside(work), is_sound(kind, work)
    again = finished(fork(kind.first, work, work.parent / "again", kind.program))
    # What was finished before it was killed is refused the second time.
    left = left or left_aside(work)
    good = sound and not left and (again in (0, 2)) and is_sound(kind, work)
    said = "" if good else (work.parent / "again").read_text()[-300:]
    row = {"command": kind.name, "signal": number.name, "cut_short": cut, "at_once": at_once, "again": again}
    row |= {"left": left}
    return row | {"good": good, "said": said}


def together(kind: Kind, work: Path, rng: random.Random) -> dict[str, Any]:
    """Two at once."""
    first = fork(kind.first, work, work.parent / "one", kind.program)
    time.sleep(rng.choice((0.0, 0.0, rng.uniform(0, 0.5))))
    second = fork(kind.second, work, work.parent / "two", kind.program)
    codes = [finished(first), finished(second)]
    good = (
        is_sound(kind, work)
        and in_fork(lambda: kind.both(work, [code == 0 for code in codes]))
        and all(code in (0, 2) for code in codes)
    )
    said = [path.read_text()[-200:] for path in (work.parent / "one", work.parent / "two")] if not good else []
    return {"command": kind.name, "codes": codes, "good": good, "said": said, "left": left_aside(work)}


def attack(kills: int, pairs: int, seed: int = 0, only: str = "") -> dict[str, Any]:
    """Kill each command so often, and run so many pairs of each kind; of three kinds where that is once."""
    from beside import module_at

    rng = random.Random(seed)
    killed, paired = [], []
    with tempfile.TemporaryDirectory() as base_name:
        base = Path(base_name)
        hub = module_at(ROOT / "tests/hub/server.py").Hub()
        os.environ |= {
            "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "*",
            "HF_HOME": str(base / "hf"), "KBENCH_HOME": str(base / "home"), "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_TOKEN": module_at(ROOT / "tests/hub/server.py").TOKEN,
        }  # fmt: skip
        threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        world = base / "world"
        assert in_fork(lambda: prepare(world))
        small_genomes()
        assert finished(fork(["data", "push", REPOSITORY, "--path", "ours"], world, base / "log")) == 0

        def fresh() -> Path:
            shutil.rmtree(base / "try", ignore_errors=True)
            return Path(shutil.copytree(world, base / "try" / "work"))

        every = [kind for kind in kinds(hub) if only in kind.name]
        for kind in every if kills > 1 else rng.sample(every, 3):
            started = time.perf_counter()
            code = finished(fork(kind.first, fresh(), base / "log", kind.program))
            assert code == 0, (kind.name, (base / "log").read_text()[-500:])
            longest_s = 1.1 * (time.perf_counter() - started)
            for path in (base / "try" / "work" / name for name in WHOLE):
                if path.exists():
                    shutil.copyfile(path, base / path.name)
            for at in range(kills):
                killed.append(kill(kind, fresh(), longest_s, SIGNALS[at % len(SIGNALS)], rng))
            for _ in range(pairs):
                paired.append(together(kind, fresh(), rng))
            bad = [row for row in [*killed, *paired] if row["command"] == kind.name and not row["good"]]
            sys.stderr.write(f"{kind.name}: {kills} kills, {pairs} pairs, {longest_s:.1f} s each, wrong: {bad}\n")
        hub.shutdown()
    return {
        "kills": len(killed), "cut_short": sum(row["cut_short"] for row in killed), "pairs": len(paired),
        "wrong": [row for row in [*killed, *paired] if not row["good"] or row["left"]],
        "refused_in_pairs": sum(2 in row["codes"] for row in paired),
    }  # fmt: skip


def main() -> None:
    """Attack and write what came of it."""
    # Modules that tests load by name lie beside this folder.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    share = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    found = attack(round(12 * share), round(6 * share), seed, sys.argv[4] if len(sys.argv) > 4 else "")
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(bool(found["wrong"]))


if __name__ == "__main__":
    main()
