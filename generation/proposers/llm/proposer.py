"""The llm proposer: prompts with parents and their figures, code extracted from replies, tokens accounted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from kbench.generation.proposers.llm.batch import BatchFiles
from kbench.generation.proposers.llm.endpoint import Endpoint, Messages
from kbench.generation.proposers.llm.extract import NoKernelError, extract
from kbench.generation.proposers.llm.prompt import messages
from kbench.generation.proposers.llm.reply import Reply
from kbench.generation.proposers.proposal import Answer, Ask, Proposal, Refusal, Task
from kbench.loaders.source.structure import structure_id
from kbench.schemas import UserError

MODEL_VARIABLE = "KBENCH_LLM_MODEL"
ENDPOINT_VARIABLE = "OPENAI_BASE_URL"
BATCH_VARIABLE = "KBENCH_LLM_BATCH"
LONGEST_EDIT = 300


class Model(Protocol):
    """Whoever answers: an endpoint or files."""

    @property
    def model(self) -> str:
        """The model's name."""
        ...

    def ask(self, requests: Sequence[Messages], /) -> list[Reply]:
        """A reply for each request, in order."""
        ...


class LlmProposer:
    """Kernels written by a language model."""

    name = "llm"

    def __init__(self, model: Model) -> None:
        self._model = model

    def propose(self, task: Task, asks: Sequence[Ask]) -> Iterator[Answer]:
        """One kernel, or a refusal with its reason, for each ask; all requests go out together."""
        requests = [self._numbered(task, ask) for ask in asks]
        for ask, reply in zip(asks, self._model.ask(requests), strict=True):
            yield self._answer(task, ask, reply)

    def _numbered(self, task: Task, ask: Ask) -> Messages:
        # Equal prompts would be one request: a number from the slot's own generator makes each a draw of its own.
        system, user = messages(task, ask)
        return [system, user | {"content": f"{user['content']}\n\nVariation {ask.rng.randrange(10**6)}."}]

    def _answer(self, task: Task, ask: Ask, reply: Reply) -> Answer:
        spent = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
        if reply.failure is not None:
            return Refusal(reason=reply.failure, proposer=self.name, **spent)
        try:
            source = extract(reply.text, input_count(task.problem_id))
        except NoKernelError as error:
            return Refusal(reason=str(error), proposer=self.name, **spent)
        parent = ask.parent.kernel_id if ask.parent else None
        return Proposal(
            source=source,
            proposer=self.name,
            edit=summary(reply.text) if parent else None,
            parent_id=parent,
            other_id=ask.other.kernel_id if ask.other else None,
            recipe={"model": self._model.model},
            niche=structure_id(source),
            **spent,
        )


def summary(text: str) -> str:
    """The first sentence of a reply, before its code."""
    prose = text.split("```")[0].strip().splitlines()
    first = next((line.strip() for line in prose if line.strip()), "")
    return first[:LONGEST_EDIT] or "rewritten by the model"


def input_count(problem_id: str) -> int:
    """How many inputs a problem's `run` takes."""
    from kbench.benchmark.problems.registry import problem

    found = problem(problem_id)
    return len(found.inputs(found.tiny.params))


def proposer_from_environment() -> LlmProposer:
    """The proposer as the environment describes it.

    KBENCH_LLM_MODEL names the model; KBENCH_LLM_BATCH, a folder, turns on batch files (requests.jsonl and
    responses.jsonl in it); otherwise OPENAI_BASE_URL and OPENAI_API_KEY lead to the endpoint.

    Raises:
        UserError: no model is named, or no client can be made for the endpoint.
        MissingDependencyError: the openai package is not installed.
    """
    model = os.environ.get(MODEL_VARIABLE)
    if not model:
        raise UserError(
            f"the llm proposer needs a model; set {MODEL_VARIABLE}, and {ENDPOINT_VARIABLE} or {BATCH_VARIABLE}"
        )
    folder = os.environ.get(BATCH_VARIABLE)
    if folder:
        files = Path(folder)
        return LlmProposer(
            BatchFiles(model=model, requests=files / "requests.jsonl", responses=files / "responses.jsonl")
        )
    endpoint = Endpoint(model=model, base_url=os.environ.get(ENDPOINT_VARIABLE))
    endpoint.check()
    return LlmProposer(endpoint)
