"""The commands that write, on a small corpus, and what they need: what kill_commands.py and refusals.py try."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[4] / "tests"
sys.path.append(str(TESTS / "support"))
from beside import module_at  # noqa: E402 - found once the path is known

REPO = "user/small"
WAITS = 3
"""Exit code of a search that waits for responses."""
TABLE = "code,device,micros,problem\n" + "".join(f'"def f(): return {n}",H200,{n + 1}.5,gelu_tanh\n' for n in range(40))
SURROGATE = """
class Even:
    def forecast(self, queries):
        return [{"probabilities": (1 / 8,) * 8} for _ in queries]
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """A command, how often it is killed, and what it does where its output is already."""

    arguments: Callable[[Path], list[str]]
    """Of the folder it works in; the output is `out` there."""
    kills: int
    replaces: bool = False
    """Half of the kills meet an output of an earlier run, which it replaces."""
    resumes: bool = False
    """What it appended before it was killed is part of the result."""
    commits: bool = False
    """It writes in place, and what it wrote counts once the manifest is there."""
    takes_back: bool = False
    """Lines of its log since its last save are taken back and written again."""
    start: Path | None = None
    """What lies in the folder before it runs; nothing when left out."""
    compares: bool = True
    """Whether there is a result to compare."""
    ends: int = 0
    """Exit code of a run that is not killed."""


def fixed(*arguments: str, out: str = "--out") -> Callable[[Path], list[str]]:
    """Arguments that do not change, and the output."""
    return lambda work: [*arguments, *([out] if out else []), str(work / "out")]


def known(base: Path) -> dict[str, Command]:
    """Every command that writes, on a small corpus."""
    corpus, board = str(base / "corpus"), ["--dataset", str(base / "corpus")]
    entries = [str(path) for path in sorted((base / "entries").iterdir())]
    search = ["--executor", "replay", "--recorded", corpus]
    evaluate = ["evaluate", *board, "--resamples", "20", "--surrogate"]
    mapping = "source=code,gpu=device,runtime_us=micros,problem=problem"
    rows, run = ["data", "export", corpus], ["generate", "--from-folder", str(base / "files"), "--proposer", "llm"]
    table = ["data", "import", str(base / "table.csv"), "--format", "table", "--map", mapping]
    site = ["leaderboard", "build", "--submissions", str(base / "entries"), *board]
    timed = ["problems", "references", "--cpu", "--problem", "gelu_tanh", "--problem", "softmax"]
    transfer = ["evaluate", "--dataset", str(base / "two"), "--held-out-gpu", "64 of 132", "--resamples", "20"]
    ask = ["generate", "--problem", "gelu_tanh", "--backend", "triton", "--proposer", "llm", "--budget", "8",
           "--executor", "replay", "--recorded", str(base / "written")]  # fmt: skip
    season, fresh = ["leaderboard", "season"], ["--from-folder", str(base / "fresh")]
    closing = ["--measurements", str(base / "timed"), "--resamples", "20"]
    prompts = ["train", "prompts", corpus, "--model", str(base / "weights"), "--source-tokens", "24"]
    train = ["train", "lm", "--model", str(base / "weights"), "--prompts", str(base / "prompts.npz.xz"), "--objective",
             "+brier", "--steps", "4", "--batch", "4", "--group", "2", "--warm-up-pairs", "8", "--save-every", "2",
             "--validate-every", "2", "--repeats", "2", "--device", "cpu"]  # fmt: skip
    check = ["measure", "--check-only", "--problem", "gelu_tanh", str(TESTS / "harness/kernels/gelu_triton.py")]
    return {
        "evaluate": Command(fixed(*evaluate, "length", "--batch-size", "4", "--no-report"), 50, True, True),
        "evaluate, with a report": Command(fixed(*evaluate, "prior"), 6, True, True),
        "evaluate, own surrogate": Command(fixed(*evaluate, str(base / "mine.py"), "--no-report"), 24, True, True),
        "data export, rows": Command(lambda work: [*rows, "--split", "all", "-o", f"{work}/out.jsonl"], 50, True),
        "data export, files": Command(fixed(*rows, "--split", "all", "--format", "files"), 50),
        "data export, training": Command(lambda work: [*rows, "--format", "sft", "-o", f"{work}/out.jsonl"], 50, True),
        "data merge": Command(fixed("data", "merge", corpus, str(base / "other")), 40),
        "data import": Command(fixed(*table), 60),
        "data assemble": Command(fixed("data", "assemble", str(base / "run")), 36, commits=True),
        "data pull": Command(fixed("data", "pull", REPO), 50, True),
        "generate, replay": Command(fixed(*run, *search), 66, resumes=True),
        "leaderboard score": Command(fixed("leaderboard", "score", *entries, *board, "--resamples", "20"), 40, True),
        "leaderboard build": Command(
            lambda work: [*site, "--cache", f"{work}/cache", "--out", f"{work}/out"], 30, True
        ),
        # So few queries give answers away: it says so and ends with 1.
        "leaderboard export-queries": Command(fixed("leaderboard", "export-queries", *board, out=""), 26, True, ends=1),
        "problems references": Command(lambda work: [*timed, "--out", f"{work}/out.jsonl"], 12, resumes=True),
        "evaluate --held-out-gpu": Command(fixed(*transfer, "--surrogate", "length", "--no-report"), 30, True, True),
        "generate, batch requests": Command(fixed(*ask), 30, resumes=True, ends=WAITS),
        # Kernels of the responses are measured, and the next requests wait.
        "generate, batch responses": Command(fixed(*ask), 30, resumes=True, start=base / "answered", ends=WAITS),
        "generate proposed": Command(fixed("generate", "proposed", str(base / "waiting")), 30, commits=True),
        "leaderboard season open": Command(fixed(*season, "open", "spring", *fresh, *board, out="--seasons"), 30),
        "leaderboard season enter": Command(
            fixed(*season, "enter", "autumn", str(base / "entry"), out="--seasons"), 30, start=base / "opened"
        ),
        "leaderboard season close": Command(
            fixed(*season, "close", "autumn", *closing, *board, out="--seasons"), 30, start=base / "entered"
        ),
        "train prompts": Command(lambda work: [*prompts, "--out", f"{work}/out.npz.xz"], 12, True),
        "train lm": Command(fixed(*train), 30, resumes=True, takes_back=True),
        "measure --check-only": Command(lambda _: check, 24, compares=False),
    }


def make_inputs(base: Path) -> None:
    """Two corpora, entries, a table, a run and source files; called in a child."""
    from kbench.loaders.corpus.writer import CorpusWriter

    builder, searches = module_at(TESTS / "benchmark/conftest.py"), module_at(TESTS / "generation/conftest.py")
    for name, seed in (("corpus", 0), ("other", 1)):
        built = builder.Builder(seed, 6, 8)
        rows = [
            searches.measurement(one.kernel_id, one.problem_id, one.status, one.speedup or 0.0) for one in built.kernels
        ]
        rows = [dataclasses.replace(row, gpu=builder.GPU, env_id=builder.ENVIRONMENT.env_id) for row in rows]
        with CorpusWriter(base / name) as writer:
            for config, records in (
                ("problems", built.problems), ("environments", [builder.ENVIRONMENT]), ("kernels", built.kernels),
                ("pairs", built.pairs), ("measurements", rows),
            ):  # fmt: skip
                writer.append(config, records)
        if name == "corpus":
            moved = module_at(TESTS / "benchmark/test_transfer.py")
            with CorpusWriter(base / "two") as writer:
                writer.append("problems", built.problems)
                writer.append("environments", [builder.ENVIRONMENT])
                writer.append("kernels", [*built.kernels, *map(moved.on_the_partition, built.kernels)])
                writer.append("pairs", [*built.pairs, *map(moved.pair_on_the_partition, built.pairs)])
            (base / "fresh").mkdir()
            season = module_at(TESTS / "leaderboard/test_season.py")
            for problem in sorted({one.problem_id for one in built.kernels if one.split == "test"}):
                for step in range(6):
                    source = season.SOURCE.format(step=step, body=" + ".join(["x"] * (step + 1)))
                    (base / "fresh" / f"{problem}__triton__{step}.py").write_text(source)
            make_written(base, built.kernels[0], searches)
    module_at(TESTS / "benchmark/test_train_lm.py").write_weights(base / "weights")
    (base / "table.csv").write_text(TABLE)
    (base / "mine.py").write_text(SURROGATE)


def written(number: int) -> str:
    """What a language model writes: kernels that have no words in common."""
    body = "".join(f"    a{number}_{line} = x.b{number}_{line}(c{number}_{line})\n" for line in range(12))
    return f"import triton\n\n\ndef run(x):\n{body}    return a{number}_11\n"


def make_written(base: Path, like: Any, searches: Any) -> None:
    """A corpus with the measurements of what the language model writes."""
    from kbench.benchmark.problems.registry import listed
    from kbench.loaders.corpus.writer import CorpusWriter
    from kbench.schemas.ids import kernel_id

    problem = listed("gelu_tanh").record()
    kernels = [
        dataclasses.replace(like, problem_id=problem.problem_id, family=problem.family, source=source,
                            kernel_id=kernel_id(problem.problem_id, like.backend, source))
        for source in map(written, range(4))
    ]  # fmt: skip
    rows = [searches.measurement(one.kernel_id, one.problem_id, one.status, 2.0) for one in kernels]
    environment = module_at(TESTS / "benchmark/conftest.py").ENVIRONMENT
    with CorpusWriter(base / "written") as writer:
        writer.append("problems", [problem])
        writer.append("environments", [environment])
        writer.append("kernels", kernels)
        writer.append(
            "measurements", [dataclasses.replace(row, gpu=like.gpu, env_id=environment.env_id) for row in rows]
        )


def begun(one: Command, work: Path) -> Path:
    """The folder a command works in, with what lies there before."""
    if one.start is not None:
        shutil.copytree(one.start, work, ignore=shutil.ignore_patterns("tmp", "home"))
    return work


def in_child(work: Callable[[], object]) -> None:
    """Do something in a process of its own: the one that forks commands starts nothing."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - a child never returns
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the inputs cannot be made")


def prepare(base: Path) -> int:
    """Inputs of all commands; returns the process of a Hub that serves one of them."""
    in_child(lambda: make_inputs(base))
    hub = module_at(TESTS / "hub/server.py").Hub()
    corpus = base / "corpus"
    hub.add(REPO, {p.relative_to(corpus).as_posix(): p.read_bytes() for p in corpus.rglob("*") if p.is_file()})
    os.environ |= {
        "HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "*",
        "HF_HOME": str(base / "hf"), "HF_HUB_DISABLE_PROGRESS_BARS": "1", "TOKENIZERS_PARALLELISM": "false",
        # Caches and threads of others are not what is tried here.
        "TORCHINDUCTOR_CACHE_DIR": str(base / "inductor"), "OMP_NUM_THREADS": "1",
        # Relative, and so a folder of each command's own.
        "KBENCH_LLM_MODEL": "scribe", "KBENCH_LLM_BATCH": "out-batch",
    }  # fmt: skip
    # A process of its own: the one that forks has no threads.
    serving = os.fork()
    if serving == 0:
        hub.serve_forever()
    return serving
