"""`lm`: a language model whose weights are here, asked through transformers for nine digits.

The answer is the likeliest bin and then a weight from 0 to 9 for each of the eight bins. No other token is allowed, so
every answer parses. `examples/train_lm.py` trains such a model.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.surrogates.llm import ANCHORS
from kbench.schemas import Forecast, PairKind, Query, UserError, bins, require_package

if TYPE_CHECKING:
    import torch

MODES = ("likelihood", "sampled")
LENGTH = 1 + bins.COUNT
"""Digits of an answer."""
LARGEST = 9
"""The largest weight that one digit states."""
ANSWER = re.compile(rf"\s*([1-{bins.COUNT}])\s*(\d{{{bins.COUNT}}})\s*")
SOURCE_TOKENS = 420
"""Tokens of a source that are shown, by default: small models read little, and training reads it thousands of times."""
DIFF_PAYS = 0.7
"""A candidate is shown as changes to its anchor when they take less than this share of its tokens."""
TOLERANCE = "\nTolerance:"
"""Where a problem's text turns to its tolerance and its reference; the reference is the anchor of some questions."""
FACTS = ("sm_count", "l2_bytes", "bandwidth_gbs", "fp32_tflops", "bf16_tflops")
GAP = "\n…\n"
ALIGNED = 64
"""Prompts are padded to multiples of this: fewer shapes to plan and memory to reuse on a GPU."""
Tokens = Sequence[int] | npt.NDArray[np.uint32]
Encode = Callable[[str], list[int]]
"""From text to tokens, without marks at either end."""


@dataclasses.dataclass(slots=True)
class LmSurrogate:
    """Local weights as a surrogate, on a GPU or a CPU."""

    inputs: ClassVar[str] = "source"
    batch_size: ClassVar[int] = 256
    """Queries per call: few, so that little is lost when a run on a CPU is interrupted."""

    model: str = ""
    """Weights: a folder that save_pretrained wrote, a .gguf file, or a Hub id."""
    mode: str = MODES[0]
    """likelihood: the probabilities of the first digit; sampled: the weights of a sampled answer."""
    repeats: int = 1
    """Sampled answers per query, each scored; average them with --ensemble."""
    temperature: float = 1.0
    """Of sampling."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""
    dtype: str = "auto"
    """float32, bfloat16, or auto: bfloat16 on a GPU."""
    batch_tokens: int = 32768
    """Most tokens read at once."""
    source_tokens: int = SOURCE_TOKENS
    """Most tokens of a source; trained weights want the number they were trained with."""
    seed: int = 0
    """Of sampling."""
    _loaded: tuple[DigitModel, Encode] | None = dataclasses.field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.model:
            raise UserError("lm needs --surrogate-arg model=PATH_OR_HUB_ID")
        if self.mode not in MODES:
            raise UserError(f"lm has mode {self.mode!r}; it must be one of {', '.join(MODES)}")
        if self.mode == MODES[0] and self.repeats != 1:
            raise UserError(f"lm has repeats {self.repeats}; a likelihood is the same every time, so use mode=sampled")
        if not self.temperature > 0 or self.batch_tokens < 1 or self.source_tokens < 1:
            raise UserError("lm needs temperature, batch_tokens and source_tokens above 0")
        require_packages()

    @property
    def model_name(self) -> str:
        """What answers, without where it lies."""
        return Path(self.model).name

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """One distribution per query, or one per sampled answer.

        Raises:
            UserError: the weights cannot be loaded.
        """
        if self._loaded is None:
            self._loaded = load_model(self.model, self.device, self.dtype)
        model, encode = self._loaded
        started = time.perf_counter()
        prompts = [prompt_tokens(query, encode, self.source_tokens) for query in queries]
        samples = self.repeats if self.mode == "sampled" else 0
        names = [query.query_id for query in queries]
        implied, stated = model.answers(prompts, noise(names, self.seed, samples), self.batch_tokens, self.temperature)
        shares = stated if samples else implied[:, None]
        elapsed_s = (time.perf_counter() - started) / max(1, len(queries) * self.repeats)
        return [
            Forecast(
                query_id=query.query_id,
                repeat=repeat,
                probabilities=tuple(distribution.tolist()),
                input_tokens=len(prompt),
                output_tokens=LENGTH if samples else 1,
                elapsed_s=elapsed_s,
            )
            for query, prompt, several in zip(queries, prompts, shares, strict=True)
            for repeat, distribution in enumerate(several)
        ]


def read_digits(text: str) -> tuple[int, tuple[float, ...]] | None:
    """The bin and the distribution that an answer states; None for any other text."""
    match = ANSWER.fullmatch(text)
    if match is None or not int(match[2]):
        return None
    weights = [int(digit) for digit in match[2]]
    return int(match[1]), tuple(weight / sum(weights) for weight in weights)


def distributions(answers: Ints) -> Floats:
    """The stated distributions [..., 8] of answers [..., 9]."""
    weights = answers[..., 1:].astype(np.float64)
    return weights / weights.sum(axis=-1, keepdims=True)


def noise(query_ids: Sequence[str], seed: int, samples: int) -> Floats:
    """Uniform numbers [queries, samples, 9], each question's own: a resumed run draws the same answers."""
    drawn = [np.random.default_rng([seed, int(name[:16], 16)]).random((samples, LENGTH)) for name in query_ids]
    return np.array(drawn).reshape(len(query_ids), samples, LENGTH)


def prompt_tokens(query: Query, encode: Encode, source_tokens: int = SOURCE_TOKENS) -> list[int]:
    """The question as tokens; the answer's nine digits follow.

    Args:
        query: what is asked.
        encode: the tokenizer; remember what it said, because sources occur in many questions.
        source_tokens: most tokens of the problem and of each source; the middle of a longer one is left out.
    """

    def shown(text: str, most: int = source_tokens) -> list[int]:
        return _clipped(encode(text.strip()), most, encode)

    facts = json.loads(query.gpu_facts_json)
    gpu = ", ".join(f"{name} {facts[name]:.4g}" for name in FACTS if facts.get(name) is not None)
    tokens = encode("# Problem\n") + shown(query.problem_text.partition(TOLERANCE)[0])
    tokens += encode(f"\n# GPU\n{query.gpu}, {gpu}\n")
    for kernel in query.known:
        tokens += encode(f"# Measured: S = {kernel.speedup:.3f} against the PyTorch reference\n")
        tokens += [*shown(kernel.source, source_tokens // 4), *encode("\n")]
    tokens += encode(f"# Anchor: {ANCHORS[query.kind]}\n") + shown(query.anchor_source)
    numbers = ", ".join(f"{number}: {bins.label(number)}" for number in bins.NUMBERS)
    question = f"\n# Speedup S of the candidate over the anchor\n{numbers}\nBin, then a weight of each bin: "
    return tokens + _candidate(query, encode, source_tokens) + encode(question)


def _candidate(query: Query, encode: Encode, most: int) -> list[int]:
    """The candidate's source, or its changes to the anchor where those are short."""
    heading = f"\n# Candidate ({query.backend.value})"
    whole = encode(query.candidate_source.strip())
    before, after = query.anchor_source.splitlines(), query.candidate_source.splitlines()
    anchor_lines = set(before)
    if query.kind is not PairKind.REFERENCE and sum(line in anchor_lines for line in after) > len(after) / 2:
        changes = encode("\n".join(list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]))
        if len(changes) < DIFF_PAYS * min(len(whole), most):
            return encode(f"{heading}: changes to the anchor\n") + _clipped(changes, most, encode)
    return encode(f"{heading}\n") + _clipped(whole, most, encode)


def _clipped(tokens: list[int], most: int, encode: Encode) -> list[int]:
    """Launch settings stand at the end of a kernel and constants at its start, so the middle goes."""
    if len(tokens) <= most:
        return tokens
    return tokens[: most // 2] + encode(GAP) + tokens[len(tokens) - (most - most // 2) :]


def load_model(model: str, device: str = "auto", dtype: str = "auto") -> tuple[DigitModel, Encode]:
    """Weights and tokenizer from a folder, a GGUF file or the Hub.

    Raises:
        UserError: there are none, they cannot be read, or a digit is not one token.
        MissingDependencyError: the extra `lm` is not installed.
    """
    tokenizer = load_pretrained("AutoTokenizer", model)
    encode = functools.partial(tokenizer.encode, add_special_tokens=False)
    digit_tokens = [encode(str(digit)) for digit in range(10)]
    if any(len(tokens) != 1 for tokens in digit_tokens):
        raise UserError(f"model {model!r} has no token for every digit; lm needs a tokenizer that has")
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    elif device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError(f"device is {device!r}, but torch sees no GPU here; use device=cpu")
    number = {"auto": "bfloat16" if device.startswith("cuda") else "float32"}.get(dtype, dtype)
    if number not in ("float32", "bfloat16"):
        raise UserError(f"dtype is {dtype!r}; it must be float32, bfloat16 or auto")
    if device.startswith("cuda"):
        # It plans every new shape anew, and each batch of prompts has its own.
        torch.backends.cuda.enable_cudnn_sdp(False)
    network = load_pretrained("AutoModelForCausalLM", model, dtype=getattr(torch, number))
    if model.endswith(".gguf"):
        # Its weights are plain numbers by now: they can be trained and saved like any others.
        network.hf_quantizer = None
        del network.config.quantization_config
    return DigitModel(network.to(device).eval(), [tokens[0] for tokens in digit_tokens]), encode


def require_packages() -> None:
    """Refuse to go on without the packages that read weights.

    Raises:
        MissingDependencyError: the extra `lm` is not installed.
    """
    for package in ("torch", "transformers"):
        require_package(package, "lm", "lm")


def load_pretrained(kind: str, model: str, **options: Any) -> Any:
    """What a class of transformers (`kind`) reads from a folder, a GGUF file or the Hub.

    Raises:
        UserError: it cannot be read.
        MissingDependencyError: the extra `lm` is not installed.
    """
    require_packages()
    import transformers

    path = Path(model)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise UserError(f"model {model!r} does not exist; give a .gguf file, a folder of weights or a Hub id")
        model, options = str(path.parent), {**options, "gguf_file": path.name}
    elif path.is_dir() and not (path / "config.json").is_file():
        raise UserError(f"folder {model!r} holds no config.json; give a folder that save_pretrained wrote, or a .gguf")
    transformers.utils.logging.disable_progress_bar()
    try:
        return getattr(transformers, kind).from_pretrained(model, **options)
    except (OSError, ValueError, ImportError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(
            f"model {model!r} cannot be loaded ({first}); give a folder, a .gguf file or a Hub id"
        ) from None


@dataclasses.dataclass(frozen=True, slots=True)
class ReadPrompts:
    """A batch of prompts as the network has read them."""

    lengths: torch.Tensor
    """[prompts]."""
    last: torch.Tensor
    """State after the last token, [prompts, channels]."""
    keys_and_values: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    """By layer."""


class DigitModel:
    """A causal language model that may only answer digits.

    A prompt is read once, whatever the number of its answers: they share its keys and values, and a mask keeps each
    from seeing the others. Gradients flow back into the prompt through the same cache.
    """

    def __init__(self, network: Any, digit_tokens: Sequence[int]) -> None:
        """Wrap a causal language model of transformers; `digit_tokens` are the tokens of the digits 0 to 9."""
        import torch

        self.network = network
        self.device: torch.device = network.device
        self.digit_tokens = torch.tensor(list(digit_tokens), device=network.device)

    def answers(
        self, prompts: Sequence[Tokens], noise: Floats, batch_tokens: int, temperature: float = 1.0
    ) -> tuple[Floats, Floats]:
        """Probability of each bin as first digit [prompts, 8], and distributions of sampled answers."""
        import torch

        implied, stated = np.zeros((len(prompts), bins.COUNT)), np.zeros((*noise.shape[:2], bins.COUNT))
        with torch.no_grad():
            for chosen in batches(np.array([len(prompt) for prompt in prompts]), batch_tokens):
                read = self.read([prompts[index] for index in chosen])
                implied[chosen] = torch.softmax(self.bin_logits(read).double(), dim=-1).cpu().numpy()
                if noise.shape[1]:
                    stated[chosen] = distributions(self.sample(read, noise[chosen], temperature).cpu().numpy())
        return implied, stated

    def read(self, prompts: Sequence[Tokens]) -> ReadPrompts:
        """Read prompts of any lengths; padding stands behind a prompt, where causal attention never looks."""
        import torch

        lengths = torch.tensor([len(prompt) for prompt in prompts])
        tokens = torch.zeros(len(prompts), -int(-lengths.max() // ALIGNED) * ALIGNED, dtype=torch.long)
        for row, prompt in zip(tokens, prompts, strict=True):
            row[: len(prompt)] = torch.as_tensor(np.asarray(prompt, dtype=np.int64))
        lengths = lengths.to(self.device)
        output = self.network.base_model(input_ids=tokens.to(self.device), use_cache=True)
        last = output.last_hidden_state[torch.arange(len(prompts), device=self.device), lengths - 1]
        return ReadPrompts(lengths, last, tuple((layer.keys, layer.values) for layer in output.past_key_values.layers))

    def bin_logits(self, read: ReadPrompts) -> torch.Tensor:
        """Logits of the eight bins as first digit, [prompts, 8]."""
        return self._digit_logits(read.last)[:, 1 : 1 + bins.COUNT]

    def sample(self, read: ReadPrompts, noise: Floats, temperature: float = 1.0) -> torch.Tensor:
        """Answers drawn from the model, [prompts, group, 9]; every one of them parses.

        Args:
            read: the prompts.
            noise: uniform numbers from 0 to 1 of the same shape, so that a draw depends on no batch and no device.
            temperature: 1 draws from the model's own distribution.
        """
        import torch

        group = noise.shape[1]
        with torch.no_grad():
            cuts = torch.as_tensor(noise, dtype=torch.float32, device=self.device)
            cache = _cache((keys.detach(), values.detach()) for keys, values in read.keys_and_values)
            mask = _mask(read, group)
            start = mask.shape[-1] - mask.shape[-2]
            logits = self._digit_logits(read.last)[:, None].expand(-1, group, -1)
            answers = torch.zeros(len(read.lengths), group, 0, dtype=torch.long, device=self.device)
            for step in range(LENGTH):
                if step:
                    shown = mask[:, :, (step - 1) * group : step * group, : start + step * group]
                    logits = self._digit_logits(self._answer_states(read, cache, answers[..., -1:], shown))[:, :, 0]
                chances = torch.softmax(permitted(logits, answers) / temperature, dim=-1)
                below = (chances.cumsum(-1) <= cuts[..., step, None]).sum(-1)
                # Rounding may leave the sum below a cut; the last digit that can be drawn is then meant.
                last = LARGEST - (chances.flip(-1) > 0).int().argmax(-1)
                answers = torch.cat([answers, torch.minimum(below, last)[..., None]], dim=-1)
        return answers

    def log_chances(self, read: ReadPrompts, answers: torch.Tensor) -> torch.Tensor:
        """Log-probability of every digit of given answers, [prompts, group, 9], with gradients."""
        import torch

        group = answers.shape[1]
        states = self._answer_states(read, _cache(read.keys_and_values), answers[..., :-1], _mask(read, group))
        first = self._digit_logits(read.last)[:, None, None].expand(-1, group, -1, -1)
        steps = torch.cat([first, self._digit_logits(states)], dim=2)
        allowed = torch.stack([permitted(steps[:, :, at], answers[..., :at]) for at in range(LENGTH)], dim=2)
        return torch.log_softmax(allowed, dim=-1).gather(-1, answers[..., None])[..., 0]

    def _digit_logits(self, states: torch.Tensor) -> torch.Tensor:
        rows = self.network.get_output_embeddings().weight[self.digit_tokens]
        return states.float() @ rows.float().T

    def _answer_states(self, read: ReadPrompts, cache: Any, answers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """States after digits [prompts, group, steps]; the mask orders them by step, then by answer."""
        import torch

        steps, seen = answers.shape[2], mask.shape[-1] - mask.shape[-2]
        prompt_width = read.keys_and_values[0][0].shape[2]
        begun = (seen - prompt_width) // answers.shape[1]
        positions = read.lengths[:, None] + begun + torch.arange(steps, device=self.device)
        output = self.network.base_model(
            input_ids=self.digit_tokens[answers.transpose(1, 2).flatten(1)],
            position_ids=positions.repeat_interleave(answers.shape[1], dim=1),
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
        )
        states: torch.Tensor = output.last_hidden_state
        return states.reshape(len(states), steps, answers.shape[1], -1).transpose(1, 2)


def permitted(logits: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """Logits of the next digit with those ruled out that would make no answer.

    The first digit is a bin. The last may not be 0 when no weight was given yet.
    """
    import torch

    step = before.shape[-1]
    digit = torch.arange(LARGEST + 1, device=logits.device)
    allowed = torch.ones_like(logits, dtype=torch.bool)
    if step == 0:
        allowed &= (digit >= 1) & (digit <= bins.COUNT)
    elif step == LENGTH - 1:
        allowed &= (digit > 0) | (before[..., 1:].sum(-1, keepdim=True) > 0)
    return logits.masked_fill(~allowed, -torch.inf)


def _cache(keys_and_values: Any) -> Any:
    """Keys and values of prompts as a cache to append to; they themselves stay as they are."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer, (keys, values) in enumerate(keys_and_values):
        cache.update(keys, values, layer)
    return cache


def _mask(read: ReadPrompts, group: int) -> torch.Tensor:
    """What a group's digits see, [prompts, 1, digits, prompt + digits]: their prompt and their own past."""
    import torch

    device, width = read.lengths.device, read.keys_and_values[0][0].shape[2]
    place = torch.arange((LENGTH - 1) * group, device=device)
    step, member = place // group, place % group
    own = (member[:, None] == member[None]) & (step[:, None] >= step[None])
    prompt = torch.arange(width, device=device)[None] < read.lengths[:, None]
    many = len(read.lengths)
    parts = (prompt[:, None, None].expand(many, 1, len(place), width), own.expand(many, 1, *own.shape))
    return torch.cat(parts, dim=-1)


def batches(lengths: Ints, most_tokens: int) -> Iterator[Ints]:
    """Indices in batches of similar length, each of at most so many tokens with its padding, longest first."""
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        count = max(1, most_tokens // int(lengths[order[0]]))
        yield order[:count]
        order = order[count:]
