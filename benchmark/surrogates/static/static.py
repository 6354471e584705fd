"""`static`: trees over what source, launch geometry, problem and GPU say; calibrated; needs no compiler and no GPU."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.questions.build import TRAIN_SPLITS
from kbench.benchmark.surrogates.known import at_known_level
from kbench.benchmark.surrogates.static.model import MODEL_FILE, StaticModel
from kbench.schemas import Forecast, Query, UserError


class StaticSurrogate:
    """Answers from the shipped model, or from one trained on the corpus at hand."""

    inputs = "source"
    shipped = MODEL_FILE

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
        self._trained_here = False

    def fit_corpus(self, corpus: Any) -> None:
        """Train where that was asked for; otherwise load the model.

        The shipped model may have learnt from a GPU that is left out here, so it is trained again on the others.
        """
        if self._retrain or (self._path == self.shipped and hasattr(corpus, "training_gpus")):
            self._model, self._trained_here = self._trained(corpus, TRAIN_SPLITS), True
            return
        self._model = StaticModel.load(self._path)

    def learned_from(self, splits: tuple[str, ...]) -> tuple[str, ...] | None:
        """What the model learned from: what there is here where it is trained here, else what the shipped one saw."""
        if self._trained_here:
            return splits
        return TRAIN_SPLITS if self._path == self.shipped else None

    def without_validation(self, corpus: Any) -> StaticSurrogate:
        """The same surrogate with a model trained here, in minutes, that did not learn from validation problems.

        A model file of the user's stays: what it learned from is not known here.
        """
        other = copy.copy(self)
        if self._path == self.shipped:
            if corpus is None:
                raise UserError(
                    "static has learned from validation problems and there is no corpus to train it anew; evaluate the "
                    "stack with kbench evaluate, or name a forecasts file in its place: "
                    "kbench evaluate --surrogate static --out runs/static, then stack:runs/static+NAME"
                )
            other._model = self._trained(corpus, TRAIN_SPLITS[:1])
        return other

    def _trained(self, corpus: Any, splits: Sequence[str]) -> StaticModel:
        from kbench.benchmark.surrogates.static.train import train

        return train(corpus, seed=self._seed, splits=splits).model

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Distribution, point speedup and chance of being valid; known kernels say how far off the level is."""
        return at_known_level(self._forecast, queries)

    def _forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        if self._model is None:
            self._model = StaticModel.load(self._path)
        forecasts = self._model.forecast(queries)
        columns = (forecasts.probabilities.tolist(), (2.0**forecasts.log2_speedup).tolist(), forecasts.p_valid.tolist())
        return [
            Forecast(query_id=q.query_id, probabilities=tuple(shares), speedup=speedup, p_valid=p_valid)
            for q, shares, speedup, p_valid in zip(queries, *columns, strict=True)
        ]
