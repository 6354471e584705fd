"""`static`: trees over what source, launch geometry, problem and GPU say; calibrated; needs no GPU.

`static-compiler` is the same with registers, shared memory, spills and shares of PTX instructions among its features.
The shares are known for kernels of the dataset; for others they are missing values: planning counts machine code.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.questions.build import TRAIN_SPLITS
from kbench.benchmark.surrogates.known import at_known_level
from kbench.benchmark.surrogates.protocol import Compiler, CompilerFacts
from kbench.benchmark.surrogates.static.features.rows import KernelPool, capability
from kbench.benchmark.surrogates.static.model import COMPILED_FILE, MODEL_FILE, Forecasts, StaticModel
from kbench.benchmark.surrogates.static.training.mixes import MIXES_FILE, Mixes
from kbench.schemas import Backend, Forecast, KernelSource, Query, UserError, require_package


class StaticSurrogate:
    """Answers from the shipped model, or from one trained on the corpus at hand."""

    inputs = "source"
    shipped = MODEL_FILE
    compiled = False

    def __init__(self, model: str | None = None, retrain: bool = False, seed: int = 0) -> None:
        """Choose the model.

        Args:
            model: a model file; the shipped one by default.
            retrain: first train on the training splits of the corpus that is evaluated.
            seed: of training.
        """
        if model is not None and retrain:
            raise UserError("static takes either model=FILE or retrain=true, not both")
        self._path = Path(model) if model is not None else self.shipped
        self._retrain = retrain or (model is None and not self.shipped.is_file())
        self._seed = seed
        self._model: StaticModel | None = None

    def fit_corpus(self, corpus: Any) -> None:
        """Train where that was asked for; otherwise load the model.

        The shipped model may have learnt from a GPU that is left out here, so it is trained again on the others.
        """
        if self._retrain or (self._path == self.shipped and hasattr(corpus, "training_gpus")):
            self._model = self._trained(corpus, TRAIN_SPLITS)
            return
        self._model = self._loaded()

    def without_validation(self, corpus: Any) -> StaticSurrogate:
        """The same surrogate with a model trained here, in minutes, that did not learn from validation problems.

        A model file of the user's stays: what it learned from is not known here.

        Raises:
            UserError: there is no corpus to train on.
        """
        other = copy.copy(self)
        if self._path == self.shipped:
            if corpus is None:
                raise UserError("static beside your own surrogate must be a forecasts file, not a name")
            other._model = self._trained(corpus, TRAIN_SPLITS[:1])
        return other

    def _trained(self, corpus: Any, splits: Sequence[str]) -> StaticModel:
        from kbench.benchmark.surrogates.static.training.train import train

        mixes = Mixes.load(MIXES_FILE) if self.compiled else None
        return train(corpus, seed=self._seed, compiled=self.compiled, mixes=mixes, splits=splits).model

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Distribution, point speedup and chance of being valid; known kernels say how far off the level is."""
        return at_known_level(self._forecast, queries)

    def _forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        if self._model is None:
            self._model = self._loaded()
        found = self._answers(self._model, queries)
        columns = (found.probabilities.tolist(), (2.0**found.log2_speedup).tolist(), found.p_valid.tolist())
        return [
            Forecast(query_id=q.query_id, probabilities=tuple(shares), speedup=speedup, p_valid=p_valid)
            for q, shares, speedup, p_valid in zip(queries, *columns, strict=True)
        ]

    def _loaded(self) -> StaticModel:
        model = StaticModel.load(self._path)
        if model.layout.compiled != self.compiled:
            wants = "static-compiler" if model.layout.compiled else "static"
            raise UserError(f"model {self._path} was trained for {wants}; ask for that surrogate, or name another file")
        return model

    def _answers(self, model: StaticModel, queries: Sequence[Query]) -> Forecasts:
        return model.forecast(queries)


class CompiledStaticSurrogate(StaticSurrogate):
    """The same with what a compiler says of every kernel: about one second per kernel the first time."""

    inputs = "source+compiler"
    shipped = COMPILED_FILE
    compiled = True
    batch_size = 256
    """Queries asked at once: compiling a batch takes a while, and finished batches are kept."""

    def __init__(
        self, model: str | None = None, retrain: bool = False, seed: int = 0, *, compiler: Compiler | None = None
    ) -> None:
        """Choose the model, as for `static`, and the compiler.

        Raises:
            MissingDependencyError: torch is not installed, which planning kernels for the compiler needs.
        """
        require_package("torch", "gpu", "static-compiler")
        super().__init__(model, retrain, seed)
        self._compiler = compiler

    def fit_corpus(self, corpus: Any) -> None:
        """Train where that was asked for; without a compiler refuse here, not query by query."""
        self._needed_compiler()
        super().fit_corpus(corpus)

    def _needed_compiler(self) -> Compiler:
        if self._compiler is None:
            raise UserError(
                "static-compiler has no compiler; run it with the kbench command, or pass compiler= to evaluate()"
            )
        return self._compiler

    def _answers(self, model: StaticModel, queries: Sequence[Query]) -> Forecasts:
        pool = KernelPool(queries)
        return model.forecast(queries, pool, compiled_facts(pool, self._needed_compiler()))


def compiled_facts(pool: KernelPool, compiler: Compiler) -> list[CompilerFacts | None]:
    """What the compiler says of each kernel of a pool, for the GPU each is asked about."""
    found: list[CompilerFacts | None] = [None] * len(pool.sources)
    by_capability: dict[str, list[int]] = {}
    for at, query in enumerate(pool.queries):
        by_capability.setdefault(capability(query), []).append(at)
    for target, places in by_capability.items():
        kernels = [_kernel(pool.sources[at], pool.queries[at]) for at in places]
        for at, facts in zip(places, compiler(kernels, target), strict=True):
            found[at] = facts
    return found


def _kernel(source: str, query: Query) -> KernelSource:
    # The query names the candidate's backend; this may be its anchor.
    backend = Backend.CUDA if "CudaModule" in source else Backend.TRITON
    return KernelSource(problem_id=query.problem_id, backend=backend, source=source)
