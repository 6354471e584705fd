"""`lm`: local weights as a surrogate, on a GPU or a CPU."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from kbench.benchmark.surrogates.language.local.answers import answers, noise_of
from kbench.benchmark.surrogates.language.local.digits import LENGTH
from kbench.benchmark.surrogates.language.local.model import DigitModel
from kbench.benchmark.surrogates.language.local.prompt import SOURCE_TOKENS, prompt_tokens
from kbench.benchmark.surrogates.language.local.weights import digit_tokens, load_network, load_tokenizer
from kbench.schemas import Forecast, Query, UserError

MODES = ("likelihood", "sampled")


@dataclasses.dataclass(slots=True)
class LmSurrogate:
    """Asks for nine digits and allows no other token, so that every answer parses."""

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
    _loaded: tuple[DigitModel, functools.partial[list[int]]] | None = dataclasses.field(
        default=None, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not self.model:
            raise UserError("lm needs --surrogate-arg model=PATH_OR_HUB_ID")
        if self.mode not in MODES:
            raise UserError(f"lm has mode {self.mode!r}; it must be one of {', '.join(MODES)}")
        if self.mode == MODES[0] and self.repeats != 1:
            raise UserError(f"lm has repeats {self.repeats}; a likelihood is the same every time, so use mode=sampled")
        if not self.temperature > 0 or self.batch_tokens < 1 or self.source_tokens < 1:
            raise UserError("lm needs temperature, batch_tokens and source_tokens above 0")

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """One distribution per query, or one per sampled answer.

        Raises:
            UserError: the weights cannot be loaded.
        """
        if self._loaded is None:
            tokenizer = load_tokenizer(self.model)
            network = load_network(self.model, self.device, self.dtype)
            encode = functools.partial(tokenizer.encode, add_special_tokens=False)
            self._loaded = DigitModel(network, digit_tokens(tokenizer, self.model)), encode
        model, encode = self._loaded
        started = time.perf_counter()
        prompts = [prompt_tokens(query, encode, self.source_tokens) for query in queries]
        samples = self.repeats if self.mode == "sampled" else 0
        drawn = [noise_of(query.query_id, self.seed, samples) for query in queries]
        noise = np.array(drawn).reshape(len(queries), samples, LENGTH)
        found = answers(model, prompts, noise, self.batch_tokens, self.temperature)
        shares = found.stated if samples else found.implied[:, None]
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
