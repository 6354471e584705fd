"""Local language models: a shared prompt is exact, every objective trains, a killed run ends as if it were not."""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

from kbench.benchmark import rewards
from kbench.benchmark.evaluation.evaluate import evaluate
from kbench.benchmark.surrogates.language.local import digits
from kbench.benchmark.surrogates.language.local.model import DigitModel, permitted
from kbench.benchmark.surrogates.language.local.weights import load_network
from kbench.benchmark.surrogates.resolve import resolve
from kbench.benchmark.tasks import Questions
from kbench.benchmark.training.lm.objective import advantages, figures
from kbench.benchmark.training.lm.optimizer import MasterAdam
from kbench.benchmark.training.lm.prompts import Prompts
from kbench.benchmark.training.lm.run import RunFolder
from kbench.benchmark.training.lm.settings import OBJECTIVES, Settings
from kbench.benchmark.training.lm.trainer import Trainer
from kbench.cli import cli
from kbench.schemas import InfrastructureError, UserError, bins

ROOT = Path(__file__).parents[2]
torch.set_num_threads(1)  # models this small lose more than they gain by threads
DIGITS = range(20, 30)


def tiny(vocabulary: int) -> Any:
    """A random Llama of two layers."""
    import transformers

    torch.manual_seed(0)
    settings = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=8192, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(settings).eval()


def write_weights(folder: Path) -> Path:
    """The same as a folder, with a tokenizer of bytes."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={byte: number for number, byte in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw).save_pretrained(folder)
    tiny(len(alphabet)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def prompts_file(weights: Path, corpus_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prompts") / "prompts.npz.xz"
    done = run("prompts", corpus_path, "--model", weights, "--source-tokens", 24, "--out", out)
    assert done.exit_code == 0, done.exception
    found = Prompts.open(out)
    assert set(found.bin[found.split == "test"]) == {0}
    # A few of each split are enough here.
    kept = np.concatenate([found.of("train")[:24], found.of("validation")[:8], found.of("test")[:8]])
    fields = {name: getattr(found, name)[kept] for name in ("query_id", "split", "bin")}
    tokens = np.concatenate([found[index] for index in kept])
    dataclasses.replace(found, tokens=tokens, ends=np.cumsum(found.lengths(kept)), **fields).write(out)
    return out


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["train", *map(str, arguments)])


def options(weights: Path, prompts: Path, out: Path, objective: str) -> list[str]:
    given = {"--model": weights, "--prompts": prompts, "--out": out, "--objective": objective, "--steps": 3}
    more = {"--batch": 4, "--group": 3, "--warm-up-pairs": 10, "--save-every": 1, "--repeats": 2, "--device": "cpu"}
    return [str(each) for pair in (given | more | {"--learning-rate": 1e-3}).items() for each in pair]


def test_answers_that_share_a_prompt_weigh_as_if_each_had_read_it_alone() -> None:
    network = tiny(40)
    model, random = DigitModel(network, DIGITS), np.random.default_rng(0)
    prompts = [random.integers(0, 20, size).tolist() for size in (5, 17, 11)]
    read = model.read(prompts)
    answers = model.sample(read, random.random((3, 4, digits.LENGTH)))
    found = model.log_chances(read, answers)
    for at, prompt in enumerate(prompts):
        for member, answer in enumerate(answers[at]):
            whole = torch.tensor([prompt + [DIGITS[digit] for digit in answer]])
            alone = network(whole).logits[0, len(prompt) - 1 : -1]
            steps = [permitted(alone[t, DIGITS[0] : DIGITS[-1] + 1], answer[:t]) for t in range(digits.LENGTH)]
            expected = torch.stack([torch.log_softmax(row, -1)[answer[t]] for t, row in enumerate(steps)])
            torch.testing.assert_close(found[at, member], expected, rtol=1e-4, atol=1e-5)


def test_every_sampled_answer_states_a_distribution() -> None:
    model = DigitModel(tiny(40), DIGITS)
    read = model.read([[1, 2, 3]])
    # The least and the largest digit each time: a bin comes first, and eight weights of zero cannot be drawn.
    for noise, expected in ((0.0, "100000001"), (1.0, "899999999")):
        assert digits.texts(model.sample(read, np.full((1, 1, digits.LENGTH), noise))[0].numpy()) == [expected]
    drawn = digits.texts(model.sample(read, np.random.default_rng(0).random((1, 64, digits.LENGTH)))[0].numpy())
    assert len(set(drawn)) > 60
    assert all(digits.read(text) is not None for text in drawn)


def test_digits_earn_what_the_same_distribution_earns_in_json() -> None:
    answer = digits.texts(digits.spread(np.array([4]), np.array([1.0])))[0]
    assert answer == "401393100"
    shares = {str(n): int(w) / 17 for n, w in zip(bins.NUMBERS, answer[1:], strict=True)}
    both = [answer, json.dumps({"probabilities": shares})]
    for reward in (rewards.hit, rewards.brier, rewards.rps):
        first, second = reward(both, bin=[5, 5])
        assert first == pytest.approx(second)
    assert rewards.hit([answer, "4", "400000000"], bin=[4, 4, 4]) == [1.0, 0.0, 0.0]


def test_advantages_are_centred_and_never_scaled() -> None:
    given = np.array([[1.0, 0.0, 0.0], [0.001, 0.0, 0.0]])
    assert advantages(given, "leave-one-out")[0] == pytest.approx([1.0, -0.5, -0.5])
    large, small = advantages(given, "mean")
    assert small == pytest.approx(large / 1000)


def simple_prompts() -> Prompts:
    """The first token says the bin, except that odd bins are as often one higher."""
    random = np.random.default_rng(0)
    shown = random.integers(1, 9, 400)
    truth = np.where((shown % 2 == 1) & (random.random(400) < 0.5), shown + 1, shown)
    split = np.where(np.arange(400) < 300, "train", "validation")
    tokens = np.stack([shown, np.full(400, 9)], axis=1).astype(np.uint32).ravel()
    names = np.array([f"{number:032x}" for number in range(400)])
    return Prompts(1, "none", np.array(DIGITS), tokens, 2 * np.arange(1, 401), names, split, truth)


def taught(objective: str, steps: int, rate: float, model: DigitModel) -> tuple[Trainer, list[dict[str, float]]]:
    settings = Settings(model="", objective=objective, steps=steps, batch=32, learning_rate=rate, warm_up_pairs=150)
    trainer = Trainer(model, simple_prompts(), settings)
    return trainer, [trainer._step(step) for step in range(steps)]


def test_objectives_teach_what_they_promise() -> None:
    chance = figures(np.full((100, 8), 1 / 8), simple_prompts().bin[300:])
    for objective in ("cross-entropy", "rps"):
        trainer, _ = taught(objective, 25, 1e-2, DigitModel(tiny(40), DIGITS))
        assert trainer.validate()["implied_rps"] < 0.5 * chance["rps"]
    warm, _ = taught("warm-up", 80, 1e-2, DigitModel(tiny(40), DIGITS))
    assert warm.validate()["stated_rps"] < 0.7 * chance["rps"]
    _, lines = taught("+crps", 16, 3e-3, warm.model)
    rewards = [line["reward"] for line in lines]
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5]) + 0.03


def test_steps_too_small_for_bfloat16_are_not_lost() -> None:
    network = tiny(40).to(torch.bfloat16)
    weight, optimizer = network.model.norm.weight, MasterAdam(network)
    seen = []
    for _ in range(20):
        weight.grad = torch.ones_like(weight)
        optimizer.step(1e-3)
        seen.append(weight[0].item())
    # One step is less than half the distance between neighbours below 1.
    assert seen[0] == 1.0
    assert seen[-1] == pytest.approx(0.98, abs=4e-3)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_trains_and_forecasts_on_a_cpu(
    objective: str, weights: Path, prompts_file: Path, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "run"
    done = run("lm", *options(weights, prompts_file, out, objective), "--json")
    assert done.exit_code == 0, done.exception
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    assert [line["step"] for line in steps] == [1, 2, 3]
    assert all(("reward" in line) == (objective in rewards.FORECAST_REWARDS) for line in steps)
    assert pq.read_table(out / "test-implied.parquet").num_rows == 8
    assert pq.read_table(out / "test-stated.parquet").num_rows == 16
    assert (out / "model" / "tokenizer.json").is_file()
    before, after = (load_network(str(folder), "cpu").state_dict() for folder in (weights, out / "model"))
    assert any(not torch.equal(before[name], after[name]) for name in before)


KILLED = """
import os, signal, sys
from kbench.benchmark.training.lm.run import RunFolder
from kbench.cli import cli
save = RunFolder.save
def save_and_die(self, step, state):
    save(self, step, state)
    if step == 2:
        os.kill(os.getpid(), signal.SIGKILL)
RunFolder.save = save_and_die
cli(["train", "lm", *sys.argv[1:]])
"""


def test_a_killed_run_ends_with_the_same_forecasts(weights: Path, prompts_file: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run("lm", *options(weights, prompts_file, whole, "+brier")).exit_code == 0
    arguments = options(weights, prompts_file, killed, "+brier")
    # As many threads as here: sums over other shares round differently.
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": str(torch.get_num_threads())}
    done = subprocess.run([sys.executable, "-c", KILLED, *arguments], env=environment, check=False)
    assert done.returncode == -9
    assert not (killed / "result.json").exists()
    assert run("lm", *arguments).exit_code == 0
    for name in ("test-implied.parquet", "test-stated.parquet", "validation-stated.parquet"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    logs = [[json.loads(line) for line in (each / "log.jsonl").read_text().splitlines()] for each in (whole, killed)]
    assert [line.get("loss") for line in logs[0]] == [line.get("loss") for line in logs[1]]
    other = run("lm", *options(weights, prompts_file, killed, "+crps"))
    assert "holds a run with objective '+brier'" in str(other.exception)


def test_a_deadline_stops_a_run_that_the_same_command_ends(weights: Path, prompts_file: Path, tmp_path: Path) -> None:
    arguments = options(weights, prompts_file, tmp_path / "run", "correctness")
    assert json.loads(run("lm", *arguments, "--deadline", 0, "--json").stdout) == {"finished": False}
    assert json.loads(run("lm", *arguments, "--json").stdout)["steps"] == 3
    picture = tmp_path / "curves.png"
    assert run("plot", tmp_path / "run", "--out", picture).exit_code == 0
    assert picture.stat().st_size > 1000


def test_runs_of_one_objective_share_a_color_and_a_torn_last_line_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    for name, objective in (("a-0", "+crps"), ("a-1", "+crps"), ("b-0", "correctness"), ("none-0", "rps")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "settings.json").write_text(json.dumps({"objective": objective}))
        line = json.dumps({"step": 1, "reward": 0.5, "rps": 0.2, "ece": 0.1, "validation": {"stated_rps": 0.2}})
        (tmp_path / name / "log.jsonl").write_text("" if name == "none-0" else f'{line}\n{{"step": 2, "rew')
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    assert run("plot", *sorted(tmp_path.iterdir()), "--out", tmp_path / "curves.png").exit_code == 0
    (picture,) = drawn
    marked = [line for line in picture.axes[1].lines if line.get_marker() != "None" and len(line.get_xdata())]
    assert [line.get_color() for line in marked] == ["C0", "C0", "C1"]
    assert [line.get_marker() for line in marked] == ["o", "s", "o"]
    (legend,) = picture.legends
    assert [text.get_text() for text in legend.get_texts()] == ["+crps", "b-0", "none-0"]


def test_a_forecast_depends_on_its_query_alone(weights: Path, questions: Questions) -> None:
    queries = questions.queries[:6]
    for given in ({}, {"mode": "sampled", "repeats": 2}):
        lm = resolve("lm", model=str(weights), source_tokens=40, device="cpu", **given)
        together = {(f.query_id, f.repeat): f.probabilities for f in lm.forecast(queries)}
        apart = {(f.query_id, f.repeat): f.probabilities for query in queries for f in lm.forecast([query])}
        assert together.keys() == apart.keys()
        for key, shares in together.items():
            assert shares == pytest.approx(apart[key], abs=1e-5)


def test_lm_is_scored_like_any_surrogate(weights: Path, corpus_path: Path) -> None:
    found = evaluate(
        "lm", str(corpus_path), limit=8, resamples=20, arguments={"model": str(weights), "source_tokens": 40}
    )
    assert not found.table.failed.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "model=PATH_OR_HUB_ID"),
        ({"model": "x", "mode": "guess"}, "one of likelihood, sampled"),
        ({"model": "x", "repeats": 2}, "use mode=sampled"),
        ({"model": "absent.gguf"}, "does not exist"),
        ({"model": "tests"}, "holds no config.json"),
    ],
)
def test_what_lm_cannot_do_is_one_clear_line(
    arguments: dict[str, Any], message: str, questions: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(UserError, match=message):
        resolve("lm", **arguments).forecast(questions.queries[:1])


def test_a_checkpoint_for_which_there_is_no_room_is_one_clear_line(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, Settings(model="x", objective=OBJECTIVES[0]), "dataset")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(InfrastructureError, match=r"checkpoint\.pt cannot be written .* make room"):
            folder.save(1, {"weights": torch.zeros(4096)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_a_full_gpu_is_one_clear_line_and_the_run_goes_on_with_fewer_tokens(
    weights: Path, prompts_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = options(weights, prompts_file, tmp_path, "+brier")
    step = Trainer._step

    def full(*given: Any, **_: Any) -> Any:
        if given[1:] == (0,):  # the first step still fits
            return step(*given)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    # First in a step, then while the checkpoint is read.
    for place, name in ((Trainer, "_step"), (torch, "load")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, full)
            done = run("lm", *arguments)
        assert isinstance(done.exception, UserError)
        assert "memory is full; free some, or give a --batch-tokens below 49152" in str(done.exception)
    begun = (tmp_path / "log.jsonl").read_text().splitlines()
    done = run("lm", *arguments, "--batch-tokens", 64)
    assert done.exit_code == 0, done.exception
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert lines[: len(begun)] == begun
    assert [json.loads(line)["step"] for line in lines if "loss" in line] == [1, 2, 3]


def test_a_missing_extra_is_named_with_its_command(questions: Questions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match=r"kbench-gpu\[lm\]"):
        resolve("lm", model="x").forecast(questions.queries[:1])
