"""`static`: gradient-boosted trees over what source, launch geometry, problem and GPU say; calibrated; needs no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.surrogates.static.model import StaticModel
from kbench.schemas import Forecast, Query, UserError

MODEL_FILE = Path(__file__).with_name("model.npz")
COMPILED_FILE = Path(__file__).with_name("compiled.npz")


class StaticSurrogate:
    """Answers from the shipped model, or from one trained on the corpus at hand."""

    inputs = "source"

    def __init__(self, model: str | None = None, retrain: bool = False, seed: int = 0) -> None:
        """Choose the model.

        Args:
            model: a model file; the shipped one by default.
            retrain: train on the training splits of the corpus that is evaluated, first.
            seed: of training.
        """
        if model is not None and retrain:
            raise UserError("static takes either model=FILE or retrain=true, not both")
        self._path = Path(model) if model is not None else MODEL_FILE
        self._retrain = retrain or (model is None and not MODEL_FILE.is_file())
        self._seed = seed
        self._model: StaticModel | None = None

    def fit_corpus(self, corpus: Any) -> None:
        """Train where that was asked for."""
        if self._retrain:
            from kbench.benchmark.surrogates.static.train import train

            self._model = train(corpus, seed=self._seed)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Distribution, point speedup and chance of being valid."""
        if self._model is None:
            self._model = StaticModel.load(self._path)
        found = self._model.forecast(queries)
        rows = zip(
            queries,
            found.probabilities.tolist(),
            (2.0**found.log2_speedup).tolist(),
            found.p_valid.tolist(),
            strict=True,
        )
        return [
            Forecast(query_id=q.query_id, probabilities=tuple(shares), speedup=speedup, p_valid=p_valid)
            for q, shares, speedup, p_valid in rows
        ]
