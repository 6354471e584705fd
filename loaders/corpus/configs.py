"""The dataset's configs: which record type a row is, how rows are split, sorted and told apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from types import MappingProxyType

from kbench.schemas import (
    Environment,
    Event,
    Kernel,
    KernelCounters,
    LiveKernel,
    Measurement,
    Pair,
    PlanSummary,
    Problem,
    Question,
    Record,
    ReferenceTime,
    TuningTime,
    UnknownNameError,
    UserError,
)
from kbench.schemas.record import field_types, optional_fields

SPLITS = ("train", "validation", "test", "test_near", "test_seen")
"""test holds unseen problems; test_near holds unseen problems of a seen template, where a corpus is split by lineage;
test_seen holds unseen near-duplicate clusters of seen problems."""
WHOLE = "full"
"""The one split of configs that are not split; `datasets` reserves the name `all` for the union of splits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """One config of the dataset."""

    name: str
    record: type[Record]
    row: str
    """What one row is, for the card."""
    key: tuple[str, ...]
    """Columns that tell rows apart."""
    sort: tuple[str, ...]
    """Order of rows within a file, facets first, so that a facet reads few row groups."""
    facets: tuple[str, ...]
    """Columns whose values the manifest lists for each file, so that whole files are skipped."""
    is_split: bool = False
    in_fingerprint: bool = True
    """Whether its rows count in the corpus's fingerprint, which names what scores were computed from."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits in order."""
        return SPLITS if self.is_split else (WHOLE,)

    @property
    def later(self) -> frozenset[str]:
        """Columns that joined after the record type's first schema version; they are null in older rows."""
        return optional_fields(self.record)


_FACETS = ("problem_id", "backend", "gpu", "search_method", "status", "family")

CONFIGS: Mapping[str, Config] = MappingProxyType(
    {
        config.name: config
        for config in (
            Config(
                "kernels", Kernel, "a kernel on a GPU, aggregated over its problem's workloads",
                key=("kernel_id", "gpu"),
                sort=("problem_id", "backend", "gpu", "search_method", "run_id", "step", "kernel_id"),
                facets=_FACETS, is_split=True,
            ),
            Config(
                "measurements", Measurement, "one kernel on one GPU and one workload, with raw samples",
                key=("measurement_id",), sort=("problem_id", "gpu", "kernel_id", "workload", "started_at"),
                facets=("problem_id", "gpu", "status"),
            ),
            Config(
                "problems", Problem, "a problem: reference, sizes, tolerance",
                key=("problem_id",), sort=("family", "problem_id"), facets=("problem_id", "family"),
            ),
            Config(
                "pairs", Pair, "a comparison of two kernels in a dataset from before release 2.2.0; no question",
                key=("pair_id",), sort=("problem_id", "backend", "gpu", "kind", "pair_id"),
                facets=("problem_id", "backend", "gpu", "kind", "family"), is_split=True,
            ),
            Config(
                "questions", Question, "a question of the benchmark, with its measured answer",
                key=("question_id",), sort=("problem_id", "gpu", "backend", "author", "kind", "question_id"),
                facets=("problem_id", "backend", "gpu", "kind", "family"), is_split=True,
            ),
            Config(
                "environments", Environment, "a machine and its software", key=("env_id",), sort=("env_id",),
                facets=("gpu",),
            ),
            Config(
                "events", Event, "one fact in a search's log", key=("run_id", "index"), sort=("run_id", "index"),
                facets=("kind",),
            ),
            Config(
                "repeats", Measurement, "a measurement made again, in fresh processes on another day or machine",
                key=("measurement_id",), sort=("problem_id", "gpu", "kernel_id", "workload", "started_at"),
                facets=("problem_id", "gpu", "status"),
            ),
            Config(
                "plans", PlanSummary, "what one kernel launches on one workload: grids, blocks, memory",
                key=("kernel_id", "gpu", "workload"), sort=("problem_id", "gpu", "kernel_id", "workload"),
                facets=("problem_id", "gpu"),
            ),
            Config(
                "references", ReferenceTime, "a problem's PyTorch reference on one workload and GPU, timed three ways",
                key=("problem_id", "workload", "gpu"), sort=("problem_id", "workload", "gpu"),
                facets=("problem_id", "gpu"),
            ),
            Config(
                "counters", KernelCounters, "what the hardware counted in one call of a kernel on one workload",
                key=("kernel_id", "gpu", "workload"), sort=("problem_id", "gpu", "kernel_id", "workload"),
                facets=("problem_id", "gpu"),
            ),
            Config(
                "live", LiveKernel, "a kernel that a search of a live study measured; no question is made from it",
                key=("study", "run_id", "number"),
                sort=("problem_id", "backend", "proposer", "search_method", "run_id", "number"),
                facets=("problem_id", "backend", "gpu", "search_method", "status", "family"), is_split=True,
                in_fingerprint=False,
            ),
            Config(
                "tuning", TuningTime, "one configuration of a tuned kernel at one shape, with its verified time",
                key=("kernel", "gpu", "shape_json", "config_json"), sort=("kernel", "gpu", "shape_json", "config_json"),
                facets=("kernel", "problem_id", "gpu", "status"), is_split=True, in_fingerprint=False,
            ),
        )
    }
)  # fmt: skip
"""Every config by name; the first is the default."""

DEFAULT = "kernels"


def config(name: str) -> Config:
    """One config."""
    if name not in CONFIGS:
        raise UnknownNameError("config", name, CONFIGS)
    return CONFIGS[name]


JOIN_COLUMNS = ("kernel_id", "problem_id", "gpu", "workload", "env_id", "run_id")
"""Columns that say what a row is about, so that rows of two configs can be joined by them."""


def unknown_column(chosen: Config, name: str, configs: Collection[str]) -> UserError:
    """The error for a column that a config lacks, with near names; where another config has it, how to join the two."""
    unknown = UnknownNameError(f"column of config {chosen.name!r}", name, field_types(chosen.record))
    for other in (CONFIGS[one] for one in configs):
        keys = join_keys(chosen, other)
        if keys and name in field_types(other.record):
            near = f" (did you mean {unknown.near[0]!r}?)" if unknown.near else ""
            return UserError(
                f"config {chosen.name!r} has no column {name!r}{near}, config {other.name!r} has; join them by {keys}"
            )
    return unknown


def join_keys(one: Config, other: Config) -> str:
    """By which columns rows of two configs belong together, in words; empty where by none."""
    own, others = field_types(one.record), field_types(other.record)
    shared = [name for name in JOIN_COLUMNS if name in own and name in others]
    # A question names its kernels by what they are to it.
    if "candidate_id" in own and "kernel_id" in others:
        shared = ["candidate_id or anchor_id = kernel_id", *shared]
    if "kernel_id" in own and "candidate_id" in others:
        shared = ["kernel_id = candidate_id or anchor_id", *shared]
    if any("kernel_id" in name for name in shared):
        shared = [name for name in shared if name not in ("problem_id", "env_id", "run_id")]
    return ", ".join(shared)
