"""Splits: which kernels are held out. By problem, and by lineage: problems whose kernels come from one template stay on
one side.

Two kernels are near-duplicates when their sources are equal after comments and docstrings are gone and chosen names and
literals are masked (exact after masking; see kbench.loaders.source.structure). Two problems are of one lineage when a
genome family or a near-duplicate cluster serves both, or when their kernels resemble each other as much as kernels of
one template do. `test` takes whole lineages that are far from everything else; `test_near` takes single problems out of
lineages that training sees; `test_seen` takes clusters of training problems. Everything is decided by hashes of ids and
by similarity of sources, never by a measured figure, a random generator or an order.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.source.similarity import Grams, Positions, Similarities
from kbench.loaders.source.strip import strip_comments
from kbench.schemas import Kernel
from kbench.schemas.ids import content_hash

TEST_SHARE = 0.2
"""Share of problems held out for test."""
VALIDATION_SHARE = 0.1
"""Share of problems held out for validation."""
SEEN_SHARE = 0.1
"""Share of kernels of the remaining problems held out as test_seen, by whole clusters."""
HELD_OUT = ("train", "validation", "test_seen", "test_near", "test")
"""Splits from least to most held out."""
RECORDED = Path(__file__).with_name("recorded_splits.json")
"""Splits of published datasets by fingerprint, oldest first: comparing all sources takes a while, and later datasets
keep them. `kbench data validate --splits` proves that they are what the rule gives. PLANNED names no dataset."""
PLANNED = "planned"
"""Problems whose sides were chosen with whole lineages before any kernel of theirs was measured: no rule that looks at
kernels decides them."""
NEAR_SHARE = 0.1
"""Share of problems held out as test_near."""
FAR = 0.4
"""Largest mean similarity of a lineage's kernels to the nearest kernel outside it that `test` takes."""
ONE_TEMPLATE = 0.5
"""Mean similarity of one problem's kernels to their nearest in another from which the two are one lineage."""
LARGEST_GROUP = 1 / 3
"""Share of a held-out split that one lineage may take, so that no template decides a score."""
SMALLEST_NEAR = 3
"""Fewest problems of a lineage that gives one to test_near."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LineageSplits:
    """Each problem's split, and why."""

    splits: Mapping[str, str]
    """By problem: train, validation, test_near or test."""
    groups: Mapping[str, str]
    """By problem: its lineage, named after the smallest problem id."""
    outside: Mapping[str, float]
    """By lineage: mean similarity of its kernels to their nearest outside it."""


def splits_of(corpus: Corpus) -> Mapping[str, str] | None:
    """Each problem's split by lineage, as the corpus states it or as it is on record; None where neither is so."""
    recorded = _recorded()
    table = corpus.table("kernels", columns=["problem_id", "split"])
    stored = dict(zip(table.column("problem_id").to_pylist(), table.column("split").to_pylist(), strict=True))
    if corpus.fingerprint in recorded:
        sides = recorded_splits(before=corpus.fingerprint) | recorded[corpus.fingerprint]
        return {problem: side for problem, side in sides.items() if problem in stored}
    if "test_near" not in stored.values():
        return None
    return {problem: "train" if split == "test_seen" else split for problem, split in stored.items()}


def recorded_splits(before: str | None = None) -> dict[str, str]:
    """The split of every problem of a published dataset, which later ones keep: what was held out stays held out.

    Args:
        before: fingerprint of a dataset; what is on record before it counts, and everything when it is not on record.
    """
    recorded = _recorded()
    kept = recorded.pop(PLANNED)
    for fingerprint, splits in recorded.items():
        if fingerprint == before:
            break
        kept |= splits
    return kept


def _recorded() -> dict[str, dict[str, str]]:
    """Each published dataset in order, with the splits of the problems that it added."""
    recorded: dict[str, dict[str, str]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return recorded


def splits_of_kernels(problems: Sequence[str], clusters: Sequence[str], splits: Mapping[str, str]) -> list[str]:
    """Each kernel's split: its problem's, or test_seen for some whole clusters of training problems."""
    rows = list(zip(problems, clusters, strict=True))
    training = [(problem, cluster) for problem, cluster in rows if splits[problem] == "train"]
    test_seen = held_out_clusters(training, {problem: problem for problem in splits})
    return [
        "test_seen" if splits[problem] == "train" and cluster in test_seen else splits[problem]
        for problem, cluster in rows
    ]


def derive_splits(corpus: Corpus, grams: Grams | None = None) -> LineageSplits:
    """Split a corpus's problems; those of an earlier published dataset keep their splits.

    Args:
        corpus: the corpus; all of its kernels count, whatever came of them.
        grams: of the sources of its distinct kernels, where they are known already.
    """
    rows = distinct_kernels(corpus, ["kernel_id", "problem_id", "cluster_id", "source"])
    grams = grams or Grams([strip_comments(row[3]) for row in rows])
    return derive_from_kernels([row[:3] for row in rows], lineages(corpus), grams, recorded_splits(corpus.fingerprint))


def distinct_kernels(corpus: Corpus, columns: list[str]) -> list[tuple[str, ...]]:
    """Columns of every kernel, `kernel_id` first; once, on however many GPUs it was measured."""
    table = corpus.table("kernels", columns=columns)
    rows = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return list({row[0]: row for row in reversed(list(rows))}.values())[::-1]


def with_splits(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels with their split by lineage; their clusters are set already, and each kernel is there once."""
    rows = [(kernel.kernel_id, kernel.problem_id, kernel.cluster_id) for kernel in kernels]
    families = {kernel.kernel_id: kernel.lineage for kernel in kernels if kernel.lineage}
    grams = Grams([strip_comments(kernel.source) for kernel in kernels])
    splits_of_problems = derive_from_kernels(rows, families, grams, recorded_splits()).splits
    splits = splits_of_kernels([row[1] for row in rows], [row[2] for row in rows], splits_of_problems)
    return [dataclasses.replace(kernel, split=split) for kernel, split in zip(kernels, splits, strict=True)]


def derive_from_kernels(
    rows: Sequence[tuple[str, ...]], families: Mapping[str, str], grams: Grams, kept: Mapping[str, str]
) -> LineageSplits:
    """Split problems by their kernels.

    Args:
        rows: id, problem and cluster of every kernel.
        families: the template family of each kernel that has one, by kernel id.
        grams: of the kernels' sources, in the same order.
        kept: splits that some problems have already.
    """
    ids, problems, clusters = zip(*rows, strict=True) if rows else ((), (), ())
    nearness = Nearness(problems, grams)
    links = [(problem, f"cluster {cluster}") for problem, cluster in zip(problems, clusters, strict=True)]
    twins = problem_groups(links)
    links += [(problem, f"family {families[kernel]}") for problem, kernel in zip(problems, ids, strict=True)
              if kernel in families]  # fmt: skip
    links += nearness.links()
    groups = problem_groups(links)
    outside = nearness.outside(groups)
    return LineageSplits(splits=assign(groups, twins, outside, kept), groups=groups, outside=outside)


def lineages(corpus: Corpus) -> dict[str, str]:
    """The genome family each kernel descends from, by kernel id; kernels written freely have none."""
    rows = corpus.table("kernels", columns=["kernel_id", "parent_id", "lineage"]).to_pylist()
    families = {row["kernel_id"]: row["lineage"] for row in rows if row["lineage"]}
    parents = {row["kernel_id"]: row["parent_id"] for row in rows}
    for kernel in parents:
        line = [kernel]
        while line[-1] not in families and parents.get(line[-1]) is not None and parents[line[-1]] not in line:
            line.append(parents[line[-1]])
        if line[-1] in families:
            families |= dict.fromkeys(line, families[line[-1]])
    return families


class Nearness:
    """How near the kernels of each problem come to those of every other problem."""

    def __init__(self, problems: Sequence[str], grams: Grams) -> None:
        """Compare all kernels with all."""
        self.names, index = np.unique(np.asarray(problems, dtype=str), return_inverse=True)
        self._kernels = [grams.row[index == number] for number in range(len(self.names))]
        own: list[Positions] = [np.unique(rows) for rows in self._kernels]
        every = np.arange(int(grams.row.max()) + 1 if len(grams.row) else 0)
        self._nearest: Similarities = np.zeros((len(every), len(self.names)), dtype=np.float32)
        """Similarity of each row of the grams to its nearest in each problem."""
        starts = np.cumsum([0, *(len(members) for members in own)])[:-1]
        for rows, block in grams.similarities(every, np.concatenate(own)):
            self._nearest[rows] = np.maximum.reduceat(block, starts, axis=1)

    def links(self) -> list[tuple[str, str]]:
        """Problems paired by likeness, as links of a group each."""
        means = np.array([self._nearest[rows].mean(axis=0) for rows in self._kernels])
        alike = np.argwhere(np.triu(np.maximum(means, means.T) >= ONE_TEMPLATE, k=1)).tolist()
        return [(str(self.names[end]), f"alike {pair}") for pair in alike for end in pair]

    def outside(self, groups: Mapping[str, str]) -> dict[str, float]:
        """Mean similarity of each group's kernels to their nearest in any other group."""
        group = np.array([groups[str(name)] for name in self.names])
        return {str(name): self.mean(np.flatnonzero(group == name), np.flatnonzero(group != name))
                for name in np.unique(group)}  # fmt: skip

    def mean(self, of: Positions, to: Positions) -> float:
        """Mean similarity of the kernels of some problems to their nearest in others, by position in `names`."""
        rows = np.concatenate([self._kernels[number] for number in of.tolist()])
        return float(self._nearest[rows][:, to].max(axis=1).mean()) if len(to) else 0.0


def assign(
    groups: Mapping[str, str], twins: Mapping[str, str], outside: Mapping[str, float], kept: Mapping[str, str]
) -> dict[str, str]:
    """Each problem's split.

    Args:
        groups: the lineage of each problem.
        twins: the group of each problem by near-duplicate clusters alone, which never lie on two sides.
        outside: nearness of each lineage to everything else.
        kept: splits that some problems have already. A new problem joins the most held-out side of its twins, or
            else of its lineage, where `test_near` holds out single problems alone.
    """
    splits = {problem: kept[problem] for problem in groups if problem in kept}
    for grouping, order in ((twins, ("test", "validation", "test_near", "train")), (groups, ("test", "validation"))):
        for members in _members(grouping).values():
            sides = {splits[problem] for problem in members if problem in splits}
            joined = next((side for side in order if side in sides), "train")
            splits |= {problem: joined for problem in members if sides and problem not in splits}
    splits |= _assign_new(
        {problem: group for problem, group in groups.items() if problem not in splits}, twins, outside
    )
    return splits


def _assign_new(groups: Mapping[str, str], twins: Mapping[str, str], outside: Mapping[str, float]) -> dict[str, str]:
    """Splits of problems that nothing is decided of: each split gets its share of them."""
    members = _members(groups)
    order = sorted(members, key=lambda name: content_hash("lineage", name))
    splits = dict.fromkeys(groups, "train")
    far = [name for name in order if outside[name] <= FAR]
    for split, due, offered in (
        ("test", TEST_SHARE * len(groups), far),
        ("validation", VALIDATION_SHARE * len(groups), [*far, *(name for name in order if name not in far)]),
    ):
        left = due
        for name in offered:
            size = len(members[name])
            if splits[members[name][0]] == "train" and size <= min(left + 0.5, max(1.0, LARGEST_GROUP * due)):
                splits |= dict.fromkeys(members[name], split)
                left -= size
    left = NEAR_SHARE * len(groups)
    for name in order:
        if splits[members[name][0]] != "train" or len(members[name]) < SMALLEST_NEAR:
            continue
        allowance = len(members[name]) / SMALLEST_NEAR
        inside = _members({problem: twins[problem] for problem in members[name]})
        for twin in sorted(inside, key=lambda one: content_hash("near", one)):
            size = len(inside[twin])
            if size <= min(allowance, left + 0.5):
                splits |= dict.fromkeys(inside[twin], "test_near")
                allowance, left = allowance - size, left - size
    return splits


def _members(groups: Mapping[str, str]) -> dict[str, list[str]]:
    members: defaultdict[str, list[str]] = defaultdict(list)
    for problem in sorted(groups):
        members[groups[problem]].append(problem)
    return members


def cluster_id(structure_id: str) -> str:
    """The near-duplicate cluster of a structure."""
    return content_hash("cluster", structure_id)


def problem_groups(links: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each problem the smallest id of its group: problems connected by shared clusters.

    Args:
        links: (problem, cluster) of every kernel.
    """
    leader: dict[str, str] = {}

    def find(problem: str) -> str:
        while leader[problem] != problem:
            leader[problem] = leader[leader[problem]]
            problem = leader[problem]
        return problem

    first_of: dict[str, str] = {}
    for problem, cluster in sorted(set(links)):
        leader.setdefault(problem, problem)
        ends = sorted((find(problem), find(first_of.setdefault(cluster, problem))))
        leader[ends[1]] = ends[0]
    return {problem: find(problem) for problem in leader}


def held_out_clusters(kernels: Iterable[tuple[str, str]], groups: Mapping[str, str]) -> set[str]:
    """Clusters of training problems that become test_seen: in hash order, as many as fit the share of each group.

    Args:
        kernels: (problem, cluster) of every kernel.
        groups: the group of each problem.
    """
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for problem, cluster in kernels:
        sizes[groups[problem]][cluster] += 1
    held: set[str] = set()
    for clusters in sizes.values():
        left = SEEN_SHARE * clusters.total()
        for cluster in sorted(clusters, key=lambda name: content_hash("seen", name)):
            if clusters[cluster] <= left:
                held.add(cluster)
                left -= clusters[cluster]
    return held
