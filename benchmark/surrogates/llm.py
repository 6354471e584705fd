"""`llm`: any model behind an OpenAI-compatible endpoint, asked live or through Batch files.

The question is rendered from a query; bins, labels and the form of the answer derive from the one constant. Reading an
answer is strict about what it means and tolerant about how it is wrapped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kbench.benchmark.llm.batch import BatchFiles
from kbench.benchmark.llm.chat import CHARACTERS_PER_TOKEN, Body, Reply
from kbench.benchmark.llm.endpoint import FORM, Endpoint, Meter
from kbench.benchmark.llm.kept import KeptReplies
from kbench.benchmark.llm.offline import AskedRequest, Offline
from kbench.benchmark.surrogates.protocol import Compiler, failure, normalised
from kbench.schemas import Forecast, MissingDependencyError, PairKind, Query, UserError, bins, require_package

if TYPE_CHECKING:
    from kbench.benchmark.surrogates.counted.facts import CountedFacts

TOKENS_PER_ANSWER = 400
"""What estimates assume of an answer; a model that reasons first writes more."""
FACTS_CHARACTERS = 2900
"""What estimates assume of counted facts: the mean over core. Counting them takes a corpus or a compiler."""
REPLIES = "replies.jsonl"
Asked = tuple[str, int]
"""Query id and repeat."""
OUR_OWN = ("model", "messages", "stream")
"""Fields of a request that the argument `body` does not change: what is asked of whom, and how the reply comes."""
KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("repeats", "max_tokens", "concurrency", "retries", "seed"), (int,)),
    **dict.fromkeys(("temperature", "timeout", "deadline", "price_in", "price_out"), (int, float)),
    **dict.fromkeys(("schema", "any_model", "retry_malformed", "facts"), (bool,)),
}
"""What arguments may be."""
SYSTEM = "You forecast the speed of GPU kernels. You answer with one JSON object and nothing else."
ANCHORS = {
    PairKind.REFERENCE: "the PyTorch reference",
    PairKind.PARENT_EDIT: "the kernel the candidate was edited from",
    PairKind.SIBLING: "another kernel for the same problem",
}
LONGEST = 200_000
"""Characters of an answer that are looked at."""
LONGEST_REASON = 200
LARGEST_SHARE = 1e6
"""A larger share is no probability, in whatever unit; sums of smaller ones are exact."""
MOST_OBJECTS = 1000
"""Places at the end of an answer where an object is looked for: each may cost as much as the answer is long."""
OBJECT = re.compile(r'\{\s*"')
KEY = re.compile(r"^(?:bin[ _]?)?([1-9])$", re.IGNORECASE)


@dataclasses.dataclass(slots=True)
class LlmSurrogate:
    """Renders a query, asks, reads the answer; whatever goes wrong is a failure of that query alone."""

    model: str = ""
    """The model's name at the endpoint."""
    base_url: str | None = None
    """The endpoint; OPENAI_BASE_URL or OpenAI's own by default."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable that holds the key; keys are never arguments."""
    temperature: float | None = None
    """Sampling temperature; the endpoint's default when left out."""
    repeats: int = 1
    """Answers per query, each scored; average them with --ensemble."""
    max_tokens: int = 4096
    """Longest answer, reasoning included."""
    concurrency: int = 16
    """Requests in flight."""
    timeout: float = 120.0
    """Seconds one try of a request may take."""
    deadline: float = 900.0
    """Seconds a request may take with all its tries and the waits between them."""
    schema: bool = True
    """Ask the endpoint to force the answer's JSON schema; one that refuses is asked without."""
    body: Mapping[str, Any] | str | None = None
    """Further fields of each request, as a JSON object; null leaves a field out."""
    requests_file: str | None = None
    """Write Batch requests here and ask nothing; with responses_file those that it does not answer."""
    responses_file: str | None = None
    """Read Batch responses from here and ask nothing."""
    any_model: bool = False
    """Take responses that name another model."""
    batch_folder: str | None = None
    """Write unanswered requests into this folder's requests.jsonl, and read its responses.jsonl: a search waits."""
    price_in: float | None = None
    """US dollars per million input tokens, for --dry-run and --max-cost."""
    price_out: float | None = None
    """US dollars per million output tokens, for --dry-run and --max-cost."""
    retries: int = 4
    """Further tries after a busy server, a server's error or a lost connection."""
    retry_malformed: bool = False
    """Ask again, in a later run, what was answered without a forecast."""
    facts: bool = False
    """State in the prompt what is counted of both kernels without a GPU."""
    seed: int = 0
    """Of the first repeat; each further repeat adds one."""
    compiler: dataclasses.InitVar[Compiler | None] = None
    """For facts of kernels that the dataset has no counted work of."""
    times_itself: ClassVar[bool] = True
    """The endpoint is timed, request by request; answers that a file holds took a time that nobody here knows."""
    _fields: Mapping[str, Any] = dataclasses.field(default_factory=dict, init=False, repr=False, compare=False)
    """The argument `body`, read."""
    _counted: CountedFacts | None = dataclasses.field(default=None, init=False, repr=False, compare=False)
    _offline: Offline | None = dataclasses.field(default=None, init=False, repr=False, compare=False)
    _chat: KeptReplies | None = dataclasses.field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self, compiler: Compiler | None) -> None:
        self.model = str(self.model)
        if not self.model and self.responses_file is None:
            raise UserError("llm needs --surrogate-arg model=NAME")
        for name, kinds in KINDS.items():
            value = getattr(self, name)
            if value is not None and (
                not isinstance(value, kinds) or isinstance(value, bool) is not (kinds == (bool,))
            ):
                kind = "true or false" if kinds == (bool,) else "a whole number" if kinds == (int,) else "a number"
                raise UserError(f"llm has {name} {value!r}; it must be {kind}")
        if self.repeats < 1 or self.concurrency < 1:
            raise UserError(
                f"llm has repeats {self.repeats} and concurrency {self.concurrency}; both must be at least 1"
            )
        self._fields = _fields(self.body)
        if self.facts:
            from kbench.benchmark.surrogates.counted.facts import CountedFacts

            self._counted = CountedFacts(compiler)
        requests, responses = (
            None if name is None else Path(str(name)) for name in (self.requests_file, self.responses_file)
        )
        if requests is not None and requests == responses:
            raise UserError(f"llm has requests_file and responses_file {str(requests)!r}; they must be two files")
        if requests is not None or responses is not None:
            if not self.model and requests is not None:
                raise UserError("llm needs --surrogate-arg model=NAME to write requests")
            self._offline = Offline(requests, responses, self.model, self.any_model)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Answers to every query and repeat.

        Raises:
            UserError: no key is set, no client can be made, the responses file does not exist or holds another model's
                answers, or the requests file is something else.
            DataError: the responses file holds a line that is no response.
            WaitingForResponsesError: the batch folder lacks answers.
        """
        requests = self._requests(queries)
        asked, bodies = [(one.query_id, one.repeat) for one in requests], [one.body for one in requests]

        def final(at: int, reply: Reply) -> bool:
            """Whether this is the model's answer; one that could be longer now may have been cut."""
            if _forecast(asked[at], reply).failure is None:
                return True
            longest = bodies[at].get("max_completion_tokens") or 0
            return not self.retry_malformed and (reply.most_tokens is None or longest <= reply.most_tokens)

        if self._offline is not None:
            replies = self._offline.ask(requests)
        elif self.batch_folder is not None:
            folder = Path(self.batch_folder)
            files = BatchFiles(requests=folder / "requests.jsonl", responses=folder / "responses.jsonl")
            # A search asks each query with one prompt, and its answers fit when prompts are worded otherwise.
            replies = files.ask(bodies, ids=[one.name for one in requests])
        else:
            self._chat = self._chat or KeptReplies(self._endpoint())
            replies = self._chat.ask(bodies, usable=final)
        return [_forecast(key, reply) for key, reply in zip(asked, replies, strict=True)]

    @property
    def inputs(self) -> str:
        """What it looks at."""
        return "source+compiler" if self.facts else "source"

    @property
    def fit_corpus(self) -> Callable[[Any], None] | None:
        """Takes the counted work that a corpus ships; a plain prompt needs no corpus."""
        return None if self._counted is None else self._counted.counting.fit_corpus

    @property
    def answers_depend_on(self) -> tuple[str, ...]:
        """What else decides the prompts."""
        return () if self._counted is None else self._counted.counting.answers_depend_on

    def learned_from(self, splits: tuple[str, ...]) -> None:
        """Nobody knows what a language model has read."""

    def _requests(self, queries: Sequence[Query]) -> list[AskedRequest]:
        if self._counted is not None:
            self._counted.count(queries)
        return [
            AskedRequest(query.query_id, repeat, self.request(query, repeat), self.facts or bool(query.known))
            for query in queries
            for repeat in range(self.repeats)
        ]

    @property
    def model_name(self) -> str | None:
        """Who answers: the model asked for, or the one that the responses name."""
        return self.model or (None if self._offline is None else self._offline.answered_by())

    def strays(self, queries: Sequence[Query]) -> int:
        """How many responses answer none of these queries."""
        return 0 if self._offline is None else self._offline.strays(self._requests(queries))

    def remarks(self) -> list[str]:
        """What whoever reads the scores should know."""
        remarks = [] if self._counted is None else self._counted.remarks()
        if self._offline is not None and self._offline.replaced:
            remarks.append(
                f"{self.requests_file} held {len(self._offline.replaced):,} other requests, which are replaced"
            )
        if self._chat is not None and FORM in self._chat.endpoint.left_out:
            remarks.append(f"the server refuses {FORM}; requests went without it, as with schema=false")
        return remarks

    def keep_replies(self, folder: Path | None, max_tokens: int | None = None, max_cost: float | None = None) -> None:
        """Keep every reply in a folder the moment it arrives, and spend no more than a limit, earlier runs included.

        Args:
            folder: gets the file of replies; None keeps nothing.
            max_tokens: tokens that may be read and written in all.
            max_cost: what they may cost in all, at the prices `price_in` and `price_out`.
        """
        if self._offline is not None or self.batch_folder is not None:
            return
        meter = None if max_tokens is None else Meter(limit=max_tokens)
        if max_cost is not None:
            if self.price_in is None or self.price_out is None:
                raise UserError(
                    "--max-cost needs --surrogate-arg price_in=… and price_out=…, US dollars per million tokens"
                )
            meter = Meter(limit=max_cost, per_input=self.price_in / 1e6, per_output=self.price_out / 1e6)
        self._chat = KeptReplies(self._endpoint(), None if folder is None else folder / REPLIES, meter)

    def estimate(self, queries: Sequence[Query]) -> dict[str, Any]:
        """What asking would cost, before any money is spent."""
        more = len(SYSTEM) + FACTS_CHARACTERS * self.facts
        tokens_in = round(sum(more + len(render(q)) for q in queries) / CHARACTERS_PER_TOKEN) * self.repeats
        tokens_out = TOKENS_PER_ANSWER * len(queries) * self.repeats
        estimates: dict[str, Any] = {
            "requests": len(queries) * self.repeats,
            "input_tokens_estimate": tokens_in,
            "output_tokens_estimate": tokens_out,
            "output_tokens_per_request_assumed": TOKENS_PER_ANSWER,
        }
        if self.price_in is not None:
            estimates["price_estimate"] = round(
                (tokens_in * self.price_in + tokens_out * (self.price_out or 0)) / 1e6, 4
            )
        if self._offline is None and self.batch_folder is None:
            try:
                require_package("openai", "llm", "asking a language model")
            except MissingDependencyError as error:
                estimates["missing"] = str(error)
        return estimates

    def request(self, query: Query, repeat: int) -> Body:
        """The chat completion request of one query and repeat."""
        prompt = render(query, "" if self._counted is None else self._counted.text(query))
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}],
            "max_completion_tokens": self.max_tokens,
            "seed": self.seed + repeat,
        }
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if self.schema:
            schema = {"name": "forecast", "strict": True, "schema": answer_schema()}
            body[FORM] = {"type": "json_schema", "json_schema": schema}
        return {name: value for name, value in (body | dict(self._fields)).items() if value is not None}

    def _endpoint(self) -> Endpoint:
        key = os.environ.get(self.api_key_env)
        if not key and self.base_url is None:
            raise UserError(
                f"environment variable {self.api_key_env} is not set; llm needs a key or a base_url of your own"
            )
        return Endpoint(
            base_url=self.base_url,
            api_key=key or "none",
            concurrency=self.concurrency,
            retries=self.retries,
            timeout_s=self.timeout,
            deadline_s=self.deadline,
        )


def _fields(body: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """The argument `body` as fields of a request."""
    fields: Any = body
    if isinstance(body, str):
        with contextlib.suppress(ValueError, RecursionError):
            fields = json.loads(body)
    if fields is None:
        return {}
    if not isinstance(fields, Mapping):
        raise UserError(f'llm has body {body!r}; it must be a JSON object such as \'{{"reasoning_effort": "high"}}\'')
    for name in OUR_OWN:
        if name in fields:
            raise UserError(f"llm has body with {name!r}, which it cannot change; leave it out")
    return fields


def _forecast(asked: Asked, reply: Reply) -> Forecast:
    """The forecast in a reply, with its tokens."""
    return dataclasses.replace(
        parse(reply.text, *asked) if reply.failure is None else failure(asked[0], reply.failure, asked[1]),
        elapsed_s=reply.elapsed_s,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
    )


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


def render(query: Query, counted: str = "") -> str:
    """The question in plain text, with what is counted of its kernels after their sources."""
    example = json.dumps({"probabilities": {str(n): 0.125 for n in bins.NUMBERS}, "speedup": 1.0, "p_valid": 0.9})
    numbered = "\n".join(f"  bin {number}: {bins.label(number)}" for number in bins.NUMBERS)
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

{counted}# Question
Into which bin does S fall?
{numbered}
A lower edge belongs to the bin above it. Give the probability of each bin (they sum to 1), your point forecast of S,
and the probability that the candidate compiles, runs and is correct. Answer with this JSON object alone:
{example}
"""


class AnswerError(ValueError):
    """The answer holds no distribution; the message says why."""


def parse(text: str, query_id: str, repeat: int = 0) -> Forecast:
    """The forecast an answer states; a failure where it states none. Never raises.

    Sums other than one are kept as `raw_sum` and normalised; all zero is a failure.
    """
    try:
        answer = _answer(text[:LONGEST])
        shares = _shares(answer)
    except AnswerError as error:
        return failure(query_id, f"answer not understood: {str(error)[:LONGEST_REASON]}", repeat)
    base = Forecast(
        query_id=query_id,
        repeat=repeat,
        speedup=_number(answer.get("speedup"), low=1e-6, high=1e6),
        p_valid=_number(answer.get("p_valid"), low=0.0, high=1.0),
        confidence=_number(answer.get("confidence"), low=0.0, high=1.0),
    )
    return normalised(base, shares)


def _answer(text: str) -> Mapping[str, Any]:
    """The last JSON object that speaks of probabilities: models think aloud before they answer."""
    answer: Mapping[str, Any] | None = None
    for value in _objects(text):
        if "probabilities" in value or "bin_probabilities" in value or sum(map(_is_bin, value)) == bins.COUNT:
            answer = value
    if answer is None:
        raise AnswerError("no JSON object with probabilities")
    return answer


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    decoder = json.JSONDecoder()
    end = 0
    for start in [found.start() for found in OBJECT.finditer(text)][-MOST_OBJECTS:]:
        if start >= end:
            with contextlib.suppress(ValueError, RecursionError):
                value, end = decoder.raw_decode(text, start)
                yield value


def _is_bin(key: object) -> bool:
    return KEY.match(str(key).strip()) is not None


def _shares(answer: Mapping[str, Any]) -> list[float]:
    stated = answer.get("probabilities", answer.get("bin_probabilities", answer))
    by_bin: dict[int, float] = {}
    if isinstance(stated, list) and stated and all(isinstance(item, dict) for item in stated):
        pairs = [(item.get("bin"), item.get("p", item.get("probability"))) for item in stated]
    elif isinstance(stated, list):
        if len(stated) != bins.COUNT:
            raise AnswerError(f"{len(stated)} probabilities; {bins.COUNT} are needed")
        pairs = list(zip(bins.NUMBERS, stated, strict=True))
    elif isinstance(stated, dict):
        pairs = [(key, value) for key, value in stated.items() if _is_bin(key)]
    else:
        raise AnswerError(f"probabilities are {type(stated).__name__}")
    for key, value in pairs:
        match = KEY.match(str(key).strip())
        if match is None or int(match[1]) not in bins.NUMBERS:
            raise AnswerError(f"bin {key!r} does not exist")
        if int(match[1]) in by_bin:
            raise AnswerError(f"bin {key!r} is given twice")
        by_bin[int(match[1])] = _share(value, int(match[1]))
    missing = [number for number in bins.NUMBERS if number not in by_bin]
    if missing:
        raise AnswerError(f"bins {missing} are missing")
    if not math.fsum(by_bin.values()) > 0:
        raise AnswerError("all probabilities are zero")
    return [by_bin[number] for number in bins.NUMBERS]


def _share(value: Any, number: int) -> float:
    if isinstance(value, str):
        scale = 100 if value.strip().endswith("%") else 1
        with contextlib.suppress(ValueError):
            value = float(value.strip().rstrip("%")) / scale
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_SHARE:
        shown = repr(value) if isinstance(value, float | str | bool | None) else type(value).__name__
        raise AnswerError(f"probability of bin {number} is {shown[:40]}")
    return float(value)


def _number(value: Any, low: float, high: float) -> float | None:
    """An optional figure; what is out of bounds was not given."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if low <= value <= high else None
