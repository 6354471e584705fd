import dataclasses
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbench.benchmark.problems.registry import problem
from kbench.cli import cli
from kbench.generation.assembly.assemble import command
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.campaign.plan import runs_of
from kbench.generation.corpus import StageError, make_corpus, read_corpus_recipe
from kbench.generation.executors.executor import Result
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import KernelSource, Status

from .conftest import measurement, settings_for, ticking
from .test_exchange import FakeGpu

ROOT = Path(__file__).parents[2]
CAMPAIGN = """
[[campaigns]]
label = "small"
problems = ["gelu_tanh"]
backends = ["triton"]
methods = ["random", "evolve"]
proposer = "genome"
seeds = 2
batch = 2
budget = { measurements = 4 }
"""


def recipe_file(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


def run_here(words: Sequence[str], variables: Mapping[str, str]) -> int:
    return CliRunner(env=dict(variables)).invoke(cli, list(words)).exit_code


class AnyKernel(FakeGpu):
    """Measures every kernel as correct, on every workload."""

    def result(self, kernel: KernelSource) -> Result:
        names = [size.name for size in problem(kernel.problem_id).sizes]
        speed = 1 + int(kernel.kernel_id[:4], 16) / 2**16
        rows = [measurement(kernel.kernel_id, kernel.problem_id, Status.OK, speed, name) for name in names]
        return Result(kernel.kernel_id, tuple(rows))


def test_a_recipe_leads_from_searches_to_a_dataset_and_again_to_the_same(tmp_path: Path) -> None:
    (spec,) = read_corpus_recipe(recipe_file(tmp_path, CAMPAIGN)).campaigns
    drive(tmp_path / "recorded", runs_of(spec)[0], Drive(executor=AnyKernel(), clock=ticking))
    recipe = read_corpus_recipe(recipe_file(tmp_path, 'recorded = "recorded"\n' + CAMPAIGN))
    prints = []
    for _ in range(2):
        make_corpus(recipe, tmp_path / "out", run_here)
        corpus = Corpus.open(tmp_path / "out" / "dataset")
        prints.append(corpus.fingerprint)
    assert prints[0] == prints[1]
    assert corpus.table("kernels").num_rows == 8
    assert {"kernels", "measurements", "questions", "events"} <= set(corpus.configs)


def test_every_stage_is_a_command_in_order(tmp_path: Path) -> None:
    text = 'devices = ["0", "0:64"]\nreferences = true\nrepeats = 5\ncounters = 3\n' + CAMPAIGN
    ran: list[str] = []

    def run(words: Sequence[str], variables: Mapping[str, str]) -> int:
        ran.append(" ".join(words))
        if words[0] == "generate":
            out = Path(words[words.index("--out") + 1])
            runs = runs_of(*read_corpus_recipe(recipe_file(tmp_path, CAMPAIGN)).campaigns)[0]
            drive(out, runs, Drive(executor=AnyKernel(), clock=ticking))
        return 1 if words[0] == "kernels" else 0

    with pytest.raises(StageError, match=r"kernels counters .* failed as said above") as caught:
        make_corpus(read_corpus_recipe(recipe_file(tmp_path, text)), tmp_path / "out", run)
    assert caught.value.exit_code == 1
    begins = ["problems references --problem gelu_tanh", "generate --campaign", "measure --gpu 0 --limit 5",
              "measure --gpu 0:64 --corpus", "kernels counters --gpu 0 --limit 3"]  # fmt: skip
    assert [line[: len(begin)] for line, begin in zip(ran, begins, strict=True)] == begins


def test_a_model_that_has_not_answered_ends_the_command_with_its_code(tmp_path: Path) -> None:
    text = CAMPAIGN.replace('"genome"', '"llm"\nmodel = "m"')
    seen: list[Mapping[str, str]] = []

    def run(words: Sequence[str], variables: Mapping[str, str]) -> int:
        seen.append(variables)
        return 3

    with pytest.raises(StageError, match="searches of small wait for responses") as caught:
        make_corpus(read_corpus_recipe(recipe_file(tmp_path, text)), tmp_path / "out", run)
    assert caught.value.exit_code == 3
    assert seen == [{"KBENCH_LLM_MODEL": "m", "KBENCH_LLM_BATCH": str(tmp_path / "out" / "batch" / "small")}]


def test_a_methods_file_lies_beside_the_recipe(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text((ROOT / "examples" / "my_method.py").read_text())
    text = CAMPAIGN.replace('"random"', '"mine.py:METHOD+surrogate"')
    (stage,) = read_corpus_recipe(recipe_file(tmp_path, text)).campaigns
    assert stage.methods == (f"{mine}:METHOD+surrogate", "evolve")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "recipe.campaigns is missing"),
        ("repeats = -1\n" + CAMPAIGN, "recipe.repeats is -1"),
        ("campaigns = 3", "recipe.campaigns is 3; it must be a list"),
        ('recorded = "nowhere"\n' + CAMPAIGN, "field 'recorded' names .*nowhere', which does not exist"),
        (CAMPAIGN + "model = 3", r"recipe.campaigns\[0\].model is 3"),
        ("speed = 1\n" + CAMPAIGN, "unknown field 'speed'"),
        (CAMPAIGN + CAMPAIGN, r"recipe.campaigns\[1\].label is 'small'; give each campaign a short name of its own"),
        (CAMPAIGN.replace('"small"', '"../up"'), "label is '../up'"),
        (CAMPAIGN.replace('"genome"', '"llm"'), "model is missing; name the language model"),
        (CAMPAIGN.replace("seeds = 2", 'seeds = "2"'), r"recipe.campaigns\[0\].seeds is '2'"),
        ('recorded = "r"\nrepeats = 2\n' + CAMPAIGN, "'recorded' answers searches alone"),
        ('recorded = "shipped"\n' + CAMPAIGN, "cannot answer proposer 'genome'.*take proposer 'pool'"),
        (CAMPAIGN.replace('"genome"', '"genom"'), "unknown proposer 'genom'"),
    ],
)
def test_a_mistake_in_a_recipe_is_named_before_anything_runs(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        read_corpus_recipe(recipe_file(tmp_path, text))


@pytest.mark.parametrize(("gpus", "message"), [(0, "no NVIDIA GPU found"), (1, "measuring needs the package 'torch'")])
def test_needs_are_looked_for_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, message: str) -> None:
    monkeypatch.setattr("kbench.harness.commands.doctor.gpu_count", lambda: gpus)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else find(name))
    out = tmp_path / "out"
    line = ["generate", "corpus", str(recipe_file(tmp_path, CAMPAIGN)), "--out", str(out)]
    assert message in str(CliRunner().invoke(cli, line).exception)
    assert not out.exists()
    timed = CliRunner().invoke(cli, ["problems", "references", "--out", str(tmp_path / "times.jsonl"), "--cpu"])
    assert "timing references needs the package 'torch'" in str(timed.exception)


def test_the_example_is_a_recipe() -> None:
    recipe = read_corpus_recipe(ROOT / "examples" / "corpus.toml")
    runs, uncovered = runs_of(*recipe.campaigns)
    assert not uncovered
    assert sum(settings.budget.measurements or 0 for settings in runs) == 192


def test_what_a_search_without_measuring_proposed_becomes_a_corpus_without_figures(tmp_path: Path, how: Drive) -> None:
    folder = tmp_path / "run"
    drive(folder, [settings_for("random")], how)
    (before,) = recorded_states(folder).values()
    none = CliRunner().invoke(command, [str(folder), "--unmeasured", "--out", str(tmp_path / "none")])
    assert "waits to be measured" in str(none.exception)
    more = dataclasses.replace(
        settings_for("random"), budget=dataclasses.replace(before.settings.budget, measurements=500)
    )
    drive(folder, [more], dataclasses.replace(how, measure=False))
    (after,) = recorded_states(folder).values()
    waiting = set(after.nodes) - set(before.nodes)
    assert waiting
    out = tmp_path / "proposed"
    made = CliRunner().invoke(command, [str(folder), "--unmeasured", "--out", str(out)])
    assert made.exit_code == 0, made.output
    rows = Corpus.open(out).table("kernels").to_pylist()
    assert {row["kernel_id"] for row in rows} == waiting
    assert {(row["status"], row["speedup"], row["gpu"]) for row in rows} == {(None, None, None)}
    assert {(row["proposer"], row["search_method"], row["lineage"]) for row in rows} == {
        ("genome", "random", "gelu_blocks")
    }
    with CorpusWriter(out) as writer:
        writer.append("measurements", [measurement(rows[0]["kernel_id"], rows[0]["problem_id"], Status.OK, 2.0)])
    measured = CliRunner().invoke(command, [str(folder), "--unmeasured", "--out", str(out)])
    assert "is a corpus with measurements" in str(measured.exception)
    assert Corpus.open(out).rows("measurements") == 1
