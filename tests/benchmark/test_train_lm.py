"""Local language models: a shared prompt is exact, every objective trains, a stopped run ends as if it were not."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from beside import module_at
from click.testing import CliRunner, Result

from kbench.benchmark import rewards
from kbench.benchmark.evaluate.evaluate import evaluate
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.lm import LENGTH, DigitModel, load_model, permitted, read_digits
from kbench.benchmark.surrogates.resolve import resolve
from kbench.schemas import MissingDependencyError, UserError, bins

ROOT = Path(__file__).parents[2]
example = module_at(ROOT / "examples/train_lm.py")
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


def texts(answers: Any) -> list[str]:
    return ["".join(map(str, row)) for row in answers.tolist()]


def test_answers_that_share_a_prompt_weigh_as_if_each_had_read_it_alone() -> None:
    network = tiny(40)
    model, random = DigitModel(network, DIGITS), np.random.default_rng(0)
    prompts = [random.integers(0, 20, size).tolist() for size in (5, 17, 11)]
    read = model.read(prompts)
    answers = model.sample(read, random.random((3, 4, LENGTH)))
    found = model.log_chances(read, answers)
    for at, prompt in enumerate(prompts):
        for member, answer in enumerate(answers[at]):
            whole = torch.tensor([prompt + [DIGITS[digit] for digit in answer]])
            alone = network(whole).logits[0, len(prompt) - 1 : -1]
            steps = [permitted(alone[t, DIGITS[0] : DIGITS[-1] + 1], answer[:t]) for t in range(LENGTH)]
            expected = torch.stack([torch.log_softmax(row, -1)[answer[t]] for t, row in enumerate(steps)])
            torch.testing.assert_close(found[at, member], expected, rtol=1e-4, atol=1e-5)


def test_every_sampled_answer_states_a_distribution() -> None:
    model = DigitModel(tiny(40), DIGITS)
    read = model.read([[1, 2, 3]])
    # The least and the largest digit each time: a bin comes first, and eight weights of zero cannot be drawn.
    for noise, expected in ((0.0, "100000001"), (1.0, "899999999")):
        assert texts(model.sample(read, np.full((1, 1, LENGTH), noise))[0].numpy()) == [expected]
    drawn = texts(model.sample(read, np.random.default_rng(0).random((1, 64, LENGTH)))[0].numpy())
    assert len(set(drawn)) > 60
    assert all(read_digits(text) is not None for text in drawn)


def test_digits_earn_what_the_same_distribution_earns_in_json() -> None:
    answer = texts(example.spread(np.array([4]), np.array([1.0])))[0]
    assert answer == "401393100"
    shares = {str(n): int(w) / 17 for n, w in zip(bins.NUMBERS, answer[1:], strict=True)}
    both = [answer, json.dumps({"probabilities": shares})]
    for reward in (rewards.hit, rewards.brier, rewards.rps):
        first, second = reward(both, bin=[5, 5])
        assert first == pytest.approx(second)
    assert rewards.hit([answer, "4", "400000000"], bin=[4, 4, 4]) == [1.0, 0.0, 0.0]


def simple_prompts() -> list[Any]:
    """The first token says the bin, except that odd bins are as often one higher."""
    random = np.random.default_rng(0)
    shown = random.integers(1, 9, 400)
    truth = np.where((shown % 2 == 1) & (random.random(400) < 0.5), shown + 1, shown)
    return [example.Prompt(f"{at:032x}", np.array([shown[at], 9]), int(truth[at])) for at in range(400)]


def taught(objective: str, steps: int, rate: float, model: DigitModel) -> tuple[Any, list[dict[str, float]]]:
    settings = example.Settings(
        model="", objective=objective, steps=steps, batch=32, learning_rate=rate, warm_up_pairs=150
    )
    trainer = example.Trainer(model, simple_prompts()[:300], simple_prompts()[300:], settings)
    return trainer, [trainer.step(step) for step in range(steps)]


def test_objectives_teach_what_they_promise() -> None:
    chance = example.figures(np.full((100, 8), 1 / 8), np.array([prompt.bin for prompt in simple_prompts()[300:]]))
    for objective in ("cross-entropy", "rps"):
        trainer, _ = taught(objective, 25, 1e-2, DigitModel(tiny(40), DIGITS))
        assert trainer.validate()["implied_rps"] < 0.5 * chance["rps"]
    warm, _ = taught("warm-up", 80, 1e-2, DigitModel(tiny(40), DIGITS))
    assert warm.validate()["stated_rps"] < 0.7 * chance["rps"]
    _, lines = taught("+crps", 16, 3e-3, warm.model)
    earned = [line["reward"] for line in lines]
    assert np.mean(earned[-5:]) > np.mean(earned[:5]) + 0.03


def test_steps_too_small_for_bfloat16_are_not_lost() -> None:
    network = tiny(40).to(torch.bfloat16)
    weight, optimizer = network.model.norm.weight, example.MasterAdam(network)
    seen = []
    for _ in range(20):
        weight.grad = torch.ones_like(weight)
        optimizer.step(1e-3)
        seen.append(weight[0].item())
    # One step is less than half the distance between neighbours below 1.
    assert seen[0] == 1.0
    assert seen[-1] == pytest.approx(0.98, abs=4e-3)


def run(weights: Path, corpus: Path, out: Path, objective: str, *more: object) -> Result:
    given = {"--model": weights, "--dataset": corpus, "--out": out, "--objective": objective, "--steps": 3}
    given |= {"--batch": 4, "--group": 3, "--warm-up-pairs": 10, "--validation-prompts": 8, "--source-tokens": 24}
    given |= {"--learning-rate": 1e-3, "--save-every": 1, "--device": "cpu"}
    return CliRunner().invoke(example.main, [str(each) for pair in given.items() for each in pair] + [*map(str, more)])


@pytest.mark.parametrize("objective", example.OBJECTIVES)
def test_every_objective_trains_a_readable_lm(objective: str, weights: Path, corpus_path: Path, tmp_path: Path) -> None:
    done = run(weights, corpus_path, tmp_path, objective)
    assert done.exit_code == 0, done.exception
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(("reward" in line) == (objective in rewards.FORECAST_REWARDS) for line in lines)
    assert "stated_rps" in lines[-1]
    before, after = (load_model(str(f), "cpu")[0].network.state_dict() for f in (weights, tmp_path / "model"))
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_a_stopped_run_ends_with_the_same_weights(
    weights: Path, corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert run(weights, corpus_path, whole, "+brier").exit_code == 0
    step = example.Trainer.step

    def fail(trainer: Any, number: int) -> Any:
        if number == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return step(trainer, number)

    with monkeypatch.context() as patch:
        patch.setattr(example.Trainer, "step", fail)
        assert isinstance(run(weights, corpus_path, stopped, "+brier").exception, torch.OutOfMemoryError)
    with (stopped / "log.jsonl").open("a") as log:
        log.write('{"step": 3, "lo')
    assert run(weights, corpus_path, stopped, "+brier").exit_code == 0
    for name in ("log.jsonl", "model/model.safetensors"):
        assert (stopped / name).read_bytes() == (whole / name).read_bytes()
    other = run(weights, corpus_path, stopped, "+crps")
    assert "holds a run with objective '+brier'" in str(other.exception)


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


def test_a_missing_extra_is_named_with_its_command(questions: Questions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingDependencyError, match=r"pip install .*\[lm\]"):
        resolve("lm", model="x").forecast(questions.queries[:1])
