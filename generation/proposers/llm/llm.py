"""The llm proposer: prompts with parents and their figures, code extracted from replies, tokens accounted."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.llm.batch import BatchFiles, request_ids
from kbench.benchmark.llm.chat import CHARACTERS_PER_TOKEN, OVER_BUDGET, Body, ChatModel, Reply
from kbench.benchmark.llm.endpoint import Endpoint
from kbench.benchmark.llm.extract import FENCE, NoKernelError, extract
from kbench.benchmark.llm.kept import KeptReplies
from kbench.benchmark.problems.registry import input_count
from kbench.generation.proposers.llm.prompt import messages
from kbench.generation.search.proposal import Answer, Ask, BudgetSpentError, Proposal, ProposalTask, Refusal
from kbench.generation.search.state import idea_of
from kbench.loaders.source.structure import structure_id
from kbench.schemas import MissingDependencyError, UserError
from kbench.schemas.ids import content_hash

MODEL_VARIABLE = "KBENCH_LLM_MODEL"
ENDPOINT_VARIABLE = "OPENAI_BASE_URL"
BATCH_VARIABLE = "KBENCH_LLM_BATCH"
NOTE = re.compile(r"[*_#>\s]*NOTE[*_]*:[*_\s]*(\S.*)", re.IGNORECASE)
"""The line of a reply in which its author tells later ones what was changed or tried."""
LONGEST_NOTE = 300
REPLIES = "replies.jsonl"


class LlmProposer:
    """Kernels written by a language model."""

    name = "llm"

    def __init__(self, chat: ChatModel, model: str, temperature: float | None = None) -> None:
        """Set up.

        Args:
            chat: who answers.
            model: the model's name there.
            temperature: sampling temperature; the model's default when left out.
        """
        self._chat, self._model, self._temperature = chat, model, temperature

    def keep_replies(self, folder: Path) -> None:
        """Keep every reply of a live endpoint in a run folder the moment it arrives."""
        if isinstance(self._chat, Endpoint):
            self._chat = KeptReplies(self._chat, folder / REPLIES)

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        """One kernel, or a refusal with its reason, for each ask; all requests go out together."""
        bodies = [self._body(task, ask) for ask in asks]
        if isinstance(self._chat, BatchFiles) and all(ask.place for ask in asks):
            # Named by place: an answer that was written meanwhile fits, whatever has become of the wording.
            replies = self._chat.ask(bodies, ids=[self._request_id(ask.place) for ask in asks])
        else:
            replies = self._chat.ask(bodies, tokens_left=task.tokens_left)
        for ask, body, reply in zip(asks, bodies, replies, strict=True):
            if (reply.failure or "").startswith(OVER_BUDGET):
                raise BudgetSpentError(f"tokens: {reply.failure}")
            yield self._answer(task, ask, body, reply)

    def unknown_responses(self, places: Iterable[str]) -> list[str]:
        """Ids of responses to none of the asks at these places, which answer nothing.

        Raises:
            UserError: open requests of another campaign lie in the folder, and would be overwritten.
        """
        if not isinstance(self._chat, BatchFiles):
            return []
        answers, own = self._chat.answers(), {self._request_id(place) for place in places}
        requests = self._chat.requests
        open_ids = {*(request_ids(requests) or ())} if requests.is_file() else set()
        if others := open_ids - own - answers.replies.keys():
            raise UserError(
                f"{requests} holds {len(others)} open requests of another campaign; give each campaign its own "
                f"{BATCH_VARIABLE}, or remove that file if nobody waits for them"
            )
        return sorted({*answers.replies, *answers.errors} - own)

    def drop_answered(self, *, keep: bool) -> None:
        """Leave no request in the file that nobody waits for.

        Args:
            keep: whether searches may still wait for those that have no response.
        """
        if isinstance(self._chat, BatchFiles) and self._chat.requests.is_file():
            self._chat.write({}, keep=keep)

    def _request_id(self, place: str) -> str:
        return content_hash("request", self._model, place)

    def _body(self, task: ProposalTask, ask: Ask) -> Body:
        # Equal prompts would be one request: a number from the slot's own generator makes each a draw of its own.
        system, user = messages(task, ask)
        numbered = user | {"content": f"{user['content']}\n\nVariation {ask.rng.randrange(10**6)}."}
        options = {} if self._temperature is None else {"temperature": self._temperature}
        return {"model": self._model, "messages": [system, numbered], **options}

    def _answer(self, task: ProposalTask, ask: Ask, body: Body, reply: Reply) -> Answer:
        """The kernel of a reply, with who answered what, when the reply says so, and what it cost."""
        read, written = sum(len(message["content"]) for message in body["messages"]), len(reply.text)
        spent = {"input_tokens": reply.input_tokens or 0, "output_tokens": reply.output_tokens or 0}
        uncounted = reply.input_tokens is None and reply.output_tokens is None
        estimated = uncounted and reply.failure is None and task.tokens_left is not None
        if estimated:
            # A budget must count tokens where the server does not.
            spent = {"input_tokens": math.ceil(read / CHARACTERS_PER_TOKEN),
                     "output_tokens": math.ceil(written / CHARACTERS_PER_TOKEN)}  # fmt: skip
        account: dict[str, Any] = {"model": reply.model or self._model, "operator": ask.operator.value}
        if reply.date is not None:
            account["date"] = reply.date
        if reply.input_tokens is None:
            account["input_characters"] = read
        if reply.output_tokens is None:
            account["output_characters"] = written
        try:
            source = "" if reply.failure is not None else extract(reply.text, input_count(task.problem_id))
            failure = reply.failure
        except NoKernelError as error:
            failure = str(error)
        if failure is not None:
            return Refusal(reason=failure, proposer=self.name, recipe=account, **spent)
        return Proposal(
            source=source,
            proposer=self.name,
            edit=note_of(reply.text, source),
            parent_id=ask.parent.kernel_id if ask.parent else None,
            other_id=ask.other.kernel_id if ask.other else None,
            recipe=account,
            niche=structure_id(source),
            must_differ=True,
            **spent,
        )


def note_of(text: str, source: str) -> str:
    """What a reply says of its kernel: its note, or else the idea the kernel states, or the first line of prose."""
    prose = [line.strip() for line in FENCE.sub("", text + "\n").splitlines() if line.strip()]
    notes = [match[1].strip() for line in prose if (match := NOTE.match(line))]
    remarks = [*notes[-1:], *filter(None, [idea_of(source)]), *prose[:1], "written by the model"]
    return remarks[0][:LONGEST_NOTE]


def proposer_from_environment() -> LlmProposer:
    """The proposer as the environment describes it.

    KBENCH_LLM_MODEL names the model; KBENCH_LLM_BATCH, a folder, turns on batch files (requests.jsonl and
    responses.jsonl in it); otherwise OPENAI_BASE_URL and OPENAI_API_KEY lead to the endpoint.
    """
    model = os.environ.get(MODEL_VARIABLE)
    if not model:
        raise UserError(
            f"the llm proposer needs a model; set {MODEL_VARIABLE}, and {ENDPOINT_VARIABLE} or {BATCH_VARIABLE}"
        )
    folder = os.environ.get(BATCH_VARIABLE)
    if folder:
        files = BatchFiles(requests=Path(folder) / "requests.jsonl", responses=Path(folder) / "responses.jsonl")
        return LlmProposer(files, model)
    endpoint = Endpoint(base_url=os.environ.get(ENDPOINT_VARIABLE))
    try:
        endpoint.check()
    except MissingDependencyError:
        without = f"or set {BATCH_VARIABLE} to a folder, and requests are exchanged as files without it"
        raise MissingDependencyError("openai", "llm", "asking a language model", instead=without) from None
    return LlmProposer(endpoint, model, temperature=1.0)
