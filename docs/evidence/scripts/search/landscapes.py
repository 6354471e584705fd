"""Tune search methods without a GPU: whole genome spaces of recorded cells, filled in by a model of what was measured.

A cell's recorded genome kernels are fitted by a Gaussian process over genes. Elsewhere a genome's log2 speedup is the
process's mean plus its standard error times a fixed random function of up to three genes at a time: what the model does
not know is as rough as its doubt. Searches run through the same code as on a GPU; only the executor is another.

    python docs/evidence/scripts/search/landscapes.py --split train --cells 24 --seeds 2 --out tuning.json \
        --arm random --arm evolve,TOURNAMENT=16,FRESH=0.05 --arm puct,parents=2 --arm evolve+surrogate,unsure_share=0.25
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import random
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from kbench.benchmark.tasks.versions import benchmark_of
from kbench.generation.campaign.campaign import Campaign
from kbench.generation.executors.executor import Result
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.log import read_log
from kbench.generation.proposers.genome.family import mutate, sample
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.genome.registry import families, families_for
from kbench.generation.search.guidance.guide import OnlineGuide, Process
from kbench.generation.search.methods import evolve, operators
from kbench.generation.search.methods.catalogue import filter_of
from kbench.generation.search.search import Search
from kbench.generation.search.settings import SURROGATE, Budget, FilterSettings, RunSettings
from kbench.generation.search.state import Operator
from kbench.generation.study.study import interval
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Backend, Measurement, from_dict

RUNS = Path(__file__).parents[2] / "runs"
AT = (8, 16, 24, 48, 64)
LEAST = 20
"""Fewest recorded genomes of a cell."""
FILTER_FIELDS = {field.name for field in dataclasses.fields(FilterSettings)}


def recorded() -> tuple[dict[tuple[str, str], list[tuple[str, dict[str, Any], float]]], dict[str, Any]]:
    """Family, genome and log2 speedup of every correct genome kernel by cell, and one measurement as a form."""
    cells, recipes, form = defaultdict(list), {}, None
    for entry in (one for run in ("h200-1", "h200-2") for one in read_log(RUNS / run)):
        key = (entry.run_id, entry.payload.get("kernel_id"))
        if entry.kind == "candidate_proposed" and entry.payload["proposer"] == "genome":
            recipes[key] = entry.payload["recipe"]
        elif entry.kind == "kernel_measured" and key in recipes:
            rows = entry.payload["measurements"]
            if all(row["speedup"] for row in rows):
                recipe, backend = recipes[key], families()[recipes[key]["family"]].backend.value
                mean = sum(math.log2(row["speedup"]) for row in rows) / len(rows)
                cells[rows[0]["problem_id"], backend].append((recipe["family"], recipe["genome"], mean))
                form = rows[0]
    assert form is not None
    return dict(cells), form


def fits(cell: tuple[str, str], family: str, genome: dict[str, Any]) -> bool:
    """Whether a recorded genome is one of its family as it is now."""
    found = {one.name: one.genes(cell[0]) for one in families_for(cell[0], Backend(cell[1]))}.get(family, ())
    return len(genome) == len(found) and all(genome.get(gene.name) in gene.choices for gene in found)


class Landscape:
    """A cell's whole genome space."""

    def __init__(
        self, cell: tuple[str, str], data: list[tuple[str, dict[str, Any], float]], form: dict[str, Any]
    ) -> None:
        self.problem, self.backend, self._form = cell[0], Backend(cell[1]), from_dict(Measurement, form)
        found = families_for(self.problem, self.backend)
        self.genes = {family.name: family.genes(self.problem) for family in found}
        rows = np.array([self.row(family, genome) for family, genome, _ in data])
        self._process = Process(rows, np.array([row[2] for row in data]), np.zeros(len(data)))
        rng = random.Random(str(cell))
        sizes = (1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3)
        self._groups = {
            name: [rng.sample([gene.name for gene in genes], min(size, len(genes))) for size in sizes]
            for name, genes in self.genes.items()
        }
        self.value = functools.cache(self._value)
        texts = {
            family.name: dataclasses.replace(family, render=functools.partial(text, family.name)) for family in found
        }
        self.proposer = GenomeProposer(texts)
        self.best = max(*(row[2] for row in data), self._climbed(list(texts.values())))

    def row(self, family: str, genome: dict[str, Any]) -> list[float]:
        """Numbers as ranks, words as columns, other families as zeros."""
        found: list[float] = []
        for name, genes in self.genes.items():
            own = name == family
            found.append(float(own))
            for gene in genes:
                place = gene.choices.index(genome[gene.name]) if own else 0
                if all(isinstance(choice, int) and not isinstance(choice, bool) for choice in gene.choices):
                    found.append(place / max(1, len(gene.choices) - 1))
                else:
                    found += [math.sqrt(0.5) * (own and place == at) for at in range(len(gene.choices))]
        return found

    def _value(self, source: str) -> float:
        family, genome = json.loads(json.loads(source.splitlines()[0].removeprefix("GENES = ")))
        means, errors = self._process.predict(np.array([self.row(family, genome)]), np.zeros(1))
        draws = [
            random.Random(zlib.crc32(repr((self.problem, family, [(name, genome[name]) for name in group])).encode()))
            for group in self._groups[family]
        ]
        return float(means[0] + errors[0] * sum(draw.gauss(0, 1) for draw in draws) / math.sqrt(len(draws)))

    def _climbed(self, found: list[Any]) -> float:
        """About the best there is: climbs from the best of a thousand draws."""
        rng = random.Random(1)
        drawn = [(family, sample(family, self.problem, rng)) for family in rng.choices(found, k=1000)]
        valued = sorted(((self.value(f.render(self.problem, g)), at) for at, (f, g) in enumerate(drawn)), reverse=True)
        best = valued[0][0]
        for value, at in valued[:4]:
            family, genome = drawn[at]
            for _ in range(150):
                child = mutate(family, self.problem, genome, rng)
                if (other := self.value(family.render(self.problem, child))) > value:
                    value, genome = other, child
            best = max(best, value)
        return best

    def measured(self, key: str, source: str) -> Measurement:
        """What the landscape answers, as a record."""
        speedup = 2.0 ** self.value(source)
        figures = {"speedup": speedup, "speedup_low": 0.99 * speedup, "speedup_high": 1.01 * speedup}
        return dataclasses.replace(self._form, kernel_id=key, problem_id=self.problem, **figures)


def text(family: str, problem: str, genome: dict[str, Any]) -> str:
    """A stand-in for a kernel that tells its genome."""
    return f"GENES = {json.dumps(json.dumps([family, genome]))}\n\n\ndef run():\n    pass\n"


class LandscapeExecutor(ReplayExecutor):
    """Answers from a landscape."""

    def __init__(self, land: Landscape) -> None:
        super().__init__({})
        self._land, self._done = land, []

    def submit(self, kernels: Any) -> None:
        """Answer at once."""
        self._done += [Result(k.kernel_id, (self._land.measured(k.kernel_id, k.source),)) for k in kernels]

    def collect(self, timeout_s: float) -> list[Result]:
        """All answers."""
        done, self._done = self._done, []
        return done


TUNED = (evolve.TOURNAMENT, operators.LEAST, dict(operators.PRIOR))
"""What was chosen."""


def _set_constants(changes: dict[str, Any]) -> None:
    """Other constants for one search: TOURNAMENT, LEAST, or the prior of an operator by its name."""
    evolve.TOURNAMENT = changes.pop("TOURNAMENT", TUNED[0])
    operators.LEAST = changes.pop("LEAST", TUNED[1])
    operators.PRIOR = {**TUNED[2], **{Operator[name]: value for name, value in changes.items()}}


def shares(land: Landscape, arm: str, seed: int) -> list[float]:
    """Best speedup after AT measurements of one search, as a share of the landscape's best."""
    name, *pairs = arm.split(",")
    changes = {key: json.loads(value) for key, value in (pair.split("=") for pair in pairs)}
    _set_constants({key: changes.pop(key) for key in list(changes) if key.isupper()})
    chosen = {key: changes.pop(key) for key in list(changes) if key in FILTER_FIELDS}
    plain = name.removesuffix(SURROGATE)
    filters = (
        FilterSettings(**{"surrogate": "online", "draw": 4, "unsure_share": 0.0, **chosen}) if plain != name else None
    )
    settings = RunSettings(
        **{"problem_id": land.problem, "backend": land.backend, "method": plain, "seed": seed, "seeds": 8, "batch": 4,
           "filter": filters, "budget": Budget(measurements=AT[-1]), **changes}
    )  # fmt: skip
    guide = OnlineGuide() if filter_of(settings) else None
    search = Search(settings, land.proposer, lambda: "2026-01-01T00:00:00.000Z", surrogate=guide)
    entries: list[Any] = []
    campaign = Campaign(LandscapeExecutor(land), entries.extend)
    campaign.add(search)
    campaign.run()
    best, found = 0.0, []
    for entry in entries:
        if entry.kind == "kernel_measured":
            best = max(best, search.state.nodes[entry.payload["kernel_id"]].reward or 0.0)
            found.append(best / 2.0**land.best)
    found += [found[-1]] * (AT[-1] - len(found))
    return [found[n - 1] for n in AT]


def main() -> None:
    """Compare arms with the first one, over problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", nargs="+", default=["train", "validation"])
    parser.add_argument("--cells", type=int, default=24)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--arm", action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    splits = benchmark_of(Corpus.open()).splits
    cells, form = recorded()
    cells = {cell: [row for row in rows if fits(cell, row[0], row[1])] for cell, rows in cells.items()}
    usable = sorted(c for c, rows in cells.items() if splits.get(c[0]) in options.split and len(rows) >= LEAST)
    taken = usable[options.first :: max(1, len(usable) // options.cells)][: options.cells]
    traces: dict[str, defaultdict[str, list[list[float]]]] = {arm: defaultdict(list) for arm in options.arm}
    for cell in taken:
        land = Landscape(cell, cells[cell], form)
        for arm in options.arm:
            rows = [shares(land, arm, seed) for seed in range(options.seeds)]
            traces[arm][cell[0]].append(np.mean(rows, axis=0).tolist())
    result = {"split": options.split, "cells": len(taken), "seeds": options.seeds, "at": AT, "arms": {}}
    for arm in options.arm:
        gains = {}
        for at, n in enumerate(AT):
            pairs = [
                [own[at] - base[at] for own, base in zip(traces[arm][p], traces[options.arm[0]][p], strict=True)]
                for p in traces[arm]
            ]
            flat = [value for pair in pairs for value in pair]
            gains[n] = [sum(flat) / len(flat), *interval(pairs, random.Random(n))]
        mean = np.mean([row for rows in traces[arm].values() for row in rows], axis=0).tolist()
        result["arms"][arm] = {"share": mean, "gain": gains}
        row = " ".join(f"{one[0]:+.3f} [{one[1]:+.3f}, {one[2]:+.3f}]" for one in gains.values())
        click.echo(f"{arm:44} {' '.join(f'{share:.3f}' for share in mean)} | {row}")
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
