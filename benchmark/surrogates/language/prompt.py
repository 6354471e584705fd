"""What a language model is told and asked. Bins, labels and the form of the answer derive from the one constant."""

from __future__ import annotations

import json
from typing import Any

from kbench.schemas import PairKind, Query, bins

SYSTEM = "You forecast the speed of GPU kernels. You answer with one JSON object and nothing else."
ANCHORS = {
    PairKind.REFERENCE: "the PyTorch reference",
    PairKind.PARENT_EDIT: "the kernel the candidate was edited from",
    PairKind.SIBLING: "another kernel for the same problem",
}


def bins_text() -> str:
    """The bins, one per line, as numbers and edges."""
    return "\n".join(f"  bin {number}: {bins.label(number)}" for number in bins.NUMBERS)


def answer_schema() -> dict[str, Any]:
    """JSON Schema of the answer."""
    number = {"type": "number"}
    probabilities = _object({str(each): number for each in bins.NUMBERS})
    return _object({"probabilities": probabilities, "speedup": number, "p_valid": number})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _known(query: Query) -> str:
    """Kernels measured before, where the query names any."""
    if not query.known:
        return ""
    kernels = [
        f"## S = {kernel.speedup:.3f} against the PyTorch reference ({kernel.backend.value})\n"
        f"```python\n{kernel.source.strip()}\n```\n"
        for kernel in query.known
    ]
    return "\n".join(["# Kernels of this problem that were measured on this GPU", *kernels, ""])


def render(query: Query) -> str:
    """The question in plain text."""
    example = json.dumps({"probabilities": {str(n): 0.125 for n in bins.NUMBERS}, "speedup": 1.0, "p_valid": 0.9})
    facts = {key: value for key, value in json.loads(query.gpu_facts_json).items() if value is not None}
    return f"""Two programs solve the same problem on the same GPU. S = anchor time / candidate time, so S > 1 means the
candidate is faster. Over several workloads S is the geometric mean. Times are device times with a cold L2 cache.

# Problem
{query.problem_text.strip()}

# GPU
{json.dumps(facts)}

{_known(query)}# Anchor: {ANCHORS[query.kind]}
```python
{query.anchor_source.strip()}
```

# Candidate ({query.backend.value})
```python
{query.candidate_source.strip()}
```

# Question
Into which bin does S fall?
{bins_text()}
A lower edge belongs to the bin above it. Give the probability of each bin (they sum to 1), your point forecast of S,
and the probability that the candidate compiles, runs and is correct. Answer with this JSON object alone:
{example}
"""
