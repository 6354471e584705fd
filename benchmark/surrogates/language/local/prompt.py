"""What a local model reads: short, because small models read little and training reads it thousands of times."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable

from kbench.benchmark.surrogates.language.prompt import ANCHORS
from kbench.schemas import PairKind, Query, bins

Encode = Callable[[str], list[int]]
"""From text to tokens, without marks at either end."""

VERSION = 1
"""Of the text below: weights trained on one version are asked with it."""
SOURCE_TOKENS = 420
"""Tokens of a source that are shown, by default."""
DIFF_PAYS = 0.7
"""A candidate is shown as changes to its anchor when they take less than this share of its tokens."""
TOLERANCE = "\nTolerance:"
"""Where a problem's text turns to its tolerance and its reference; the reference is the anchor of some questions."""
FACTS = ("gpu", "sm_count", "l2_bytes", "bandwidth_gbs", "fp32_tflops", "bf16_tflops")
GAP = "\n…\n"


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
    gpu = ", ".join(f"{name} {facts[name]:.4g}" for name in FACTS[1:] if facts.get(name) is not None)
    tokens = encode("# Problem\n") + shown(query.problem_text.partition(TOLERANCE)[0])
    tokens += encode(f"\n# GPU\n{query.gpu}, {gpu}\n")
    for kernel in query.known:
        tokens += encode(f"# Measured: S = {kernel.speedup:.3f} against the PyTorch reference\n")
        tokens += [*shown(kernel.source, source_tokens // 4), *encode("\n")]
    tokens += encode(f"# Anchor: {ANCHORS[query.kind]}\n") + shown(query.anchor_source)
    return tokens + _candidate(query, encode, source_tokens) + encode(_question())


def _candidate(query: Query, encode: Encode, most: int) -> list[int]:
    heading = f"\n# Candidate ({query.backend.value})"
    whole = encode(query.candidate_source.strip())
    before, after = query.anchor_source.splitlines(), query.candidate_source.splitlines()
    known = set(before)
    if query.kind is not PairKind.REFERENCE and sum(line in known for line in after) > len(after) / 2:
        changes = encode("\n".join(list(difflib.unified_diff(before, after, lineterm="", n=1))[2:]))
        if len(changes) < DIFF_PAYS * min(len(whole), most):
            return encode(f"{heading}: changes to the anchor\n") + _clipped(changes, most, encode)
    return encode(f"{heading}\n") + _clipped(whole, most, encode)


def _clipped(tokens: list[int], most: int, encode: Encode) -> list[int]:
    """Launch settings stand at the end of a kernel and constants at its start, so the middle goes."""
    if len(tokens) <= most:
        return tokens
    return tokens[: most // 2] + encode(GAP) + tokens[len(tokens) - (most - most // 2) :]


def _question() -> str:
    numbers = ", ".join(f"{number}: {bins.label(number)}" for number in bins.NUMBERS)
    return f"\n# Speedup S of the candidate over the anchor\n{numbers}\nBin, then a weight of each bin: "
