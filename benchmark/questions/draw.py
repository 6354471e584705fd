"""Draw the questions of a corpus: which kernels are compared with which, decided by hashes of their ids.

Kernels are compared within a cell: one problem, GPU, split, backend and author class, so that neither style nor
language answers. Three kinds of question are drawn from the correct kernels of a cell.

- An *edit* compares a kernel with the one it was made from.
- A *pair* compares two kernels that are about equally long: where models write, the longer kernel is often the faster
  one, and counting letters should answer nothing. A kernel occurs once in a draw. Parent and child are no pair where
  edits are asked; where none are, a parent that misses its children in its pairs would be told by their number.
- A *level* compares a kernel with the PyTorch reference; a cell's levels are a pool to rank. A large cell gives the
  kernels of one stretch of its order by length.

Training splits state all edits and levels, and several draws. Held-out splits take as many of each cell as of every
other until a problem has enough, and leave out a problem that has few. There, a kernel of an edit is in no other
question: a search makes children of the kernels it found fast, so that being a parent elsewhere, or twice, would tell.
A few kernels of each problem are set aside to be shown as known ones, and no question is about them or about a kernel
of their structure. An edit or pair whose workloads disagree is asked again about one of them. A held-out problem asks
as many again, but any of its edits and pairs: to be asked about again would tell that a kernel is unusual.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kbench.benchmark.questions.answers import ratio
from kbench.schemas import AuthorClass, Backend, Kernel, Measurement, Question, QuestionKind, Status, bins
from kbench.schemas.ids import content_hash

DRAWS = 4
"""Draws of pairs in training splits."""
MOST_DRAWS = 24
"""Draws of pairs in held-out splits, where small cells need more of them to reach the number below."""
PAIRS, EDITS, ONE_WORKLOAD = 128, 40, 24
"""Most questions of a kind for each held-out problem and GPU; ONE_WORKLOAD counts those about one workload."""
POOL = 24
"""Most kernels of a held-out pool."""
NEAR = 6
"""Neighbours in the order by length among which a draw pairs kernels."""
SHARE_OF_EDITS = 4
"""Kernels of a held-out problem for each of its edits."""
LEAST_PAIRS, LEAST_EDITS = 6, 5
"""Fewest questions of a kind that a held-out problem is asked: problems count alike, and one of a few rows is noise.
Without enough pairs a problem is not asked about at all; six are what it gives to core."""
EDIT_LENGTH = 0.1
"""Largest difference in length between a held-out kernel and its parent, as a share: counting letters should answer
nothing here either."""
LEAST_POOL = 5
"""Fewest kernels worth ordering."""
KNOWN = 8
"""Kernels of a problem and GPU that are set aside to be shown."""
SET_ASIDE = 0.25
"""Largest share of a problem's kernels that may go with them."""
DISAGREEMENT = 0.25
"""Difference of log2 speedups between two workloads, beyond their intervals, from which they disagree."""
CORE_PAIRS, CORE_EDITS, CORE_POOLS, CORE_POOL = 6, 8, 16, 12
"""What each problem gives to core, how many pools it has, and how many kernels of each. Edits come from one cell of a
problem: edits of two cells are not compared."""
TRAINING = "train"

Figure = tuple[float, float | None, float | None]
"""A value and the ends of its interval."""


@dataclasses.dataclass(frozen=True, slots=True)
class Timed:
    """A kernel with its times: over all workloads under None, and on each; none before it is measured."""

    kernel: Kernel
    author: AuthorClass
    runtime_us: Mapping[str | None, Figure]

    @property
    def id(self) -> str:
        """The kernel's."""
        return self.kernel.kernel_id


Ends = tuple[Timed, Timed]
"""Anchor and candidate."""


def draw_questions(kernels: Iterable[Kernel], measurements: Iterable[Measurement], seed: str = "") -> list[Question]:
    """Every question of a corpus with its answer."""
    return _drawn(_timed(kernels, measurements), seed)


def draw_unanswered(kernels: Iterable[Kernel], seed: str = "") -> list[Question]:
    """Every question about kernels that nobody has measured, without answers.

    Nobody knows which kernels are correct: a question about one that turns out to fail will have no answer.
    """
    return _drawn((Timed(one, AuthorClass.of(one.proposer, one.search_method), {}) for one in kernels), seed)


def _drawn(kernels: Iterable[Timed], seed: str) -> list[Question]:
    groups: defaultdict[tuple[str, str, str], list[Timed]] = defaultdict(list)
    for one in kernels:
        groups[one.kernel.split, one.kernel.problem_id, str(one.kernel.gpu)].append(one)
    drawn = [question for _, members in sorted(groups.items()) for question in Draw(members, seed).questions()]
    pools = _core_pools(drawn, seed)
    return [dataclasses.replace(one, core=True) if one.question_id in pools else one for one in drawn]


def _timed(kernels: Iterable[Kernel], measurements: Iterable[Measurement]) -> Iterator[Timed]:
    times: defaultdict[tuple[str, str], dict[str | None, Figure]] = defaultdict(dict)
    for row in measurements:
        if row.runtime_us is not None:
            times[row.kernel_id, row.gpu][row.workload] = (row.runtime_us, row.runtime_low_us, row.runtime_high_us)
    for kernel in kernels:
        if kernel.status is Status.OK and kernel.runtime_us is not None and kernel.speedup is not None:
            whole = (kernel.runtime_us, kernel.runtime_low_us, kernel.runtime_high_us)
            author = AuthorClass.of(kernel.proposer, kernel.search_method)
            yield Timed(kernel, author, {None: whole, **times[kernel.kernel_id, str(kernel.gpu)]})


class Draw:
    """The questions of one problem on one GPU in one split."""

    def __init__(self, members: Sequence[Timed], seed: str) -> None:
        """Set kernels aside, and put the others into cells."""
        self._seed = seed
        self._held_out = members[0].kernel.split != TRAINING
        known = self._set_aside(members) if self._held_out and members[0].runtime_us else []
        self._known_ids = tuple(one.id for one in known)
        structures = {one.kernel.structure_id for one in known}
        asked = [one for one in members if one.kernel.structure_id not in structures]
        cells: defaultdict[tuple[Backend, AuthorClass], list[Timed]] = defaultdict(list)
        for one in asked:
            cells[one.kernel.backend, one.author].append(one)
        self._cells = [cells[key] for key in sorted(cells)]

    def questions(self) -> Iterator[Question]:
        """Edits and pairs over all workloads, those about one workload, and levels."""
        # Of a small problem edits must not take the kernels that its pairs and pools need.
        most = min(EDITS, sum(map(len, self._cells)) // SHARE_OF_EDITS)
        edits = self._chosen((self._edits(cell) for cell in self._cells), most)
        edits = edits if len(edits) >= LEAST_EDITS or not self._held_out else []
        edited = {one.id for ends in edits for one in ends} if self._held_out else set()
        cells = [[one for one in cell if one.id not in edited] for cell in self._cells]
        pairs = self._chosen((self._pairs(cell, kin=not edits) for cell in cells), PAIRS)
        if self._held_out and len(pairs) < LEAST_PAIRS:
            return
        by_cell: defaultdict[tuple[Backend, AuthorClass], list[Ends]] = defaultdict(list)
        for anchor, candidate in edits:
            by_cell[candidate.kernel.backend, candidate.author].append((anchor, candidate))
        most_edits = max(by_cell.values(), key=len, default=[])
        core = {(one.id, other.id) for one, other in (*most_edits[:CORE_EDITS], *pairs[:CORE_PAIRS])}
        for kind, both_ends in ((QuestionKind.EDIT, edits), (QuestionKind.PAIR, pairs)):
            for anchor, candidate in both_ends:
                in_core = self._held_out and (anchor.id, candidate.id) in core
                yield self._question(kind, anchor, candidate, core=in_core)
        asked = [(QuestionKind.EDIT, *ends) for ends in edits] + [(QuestionKind.PAIR, *ends) for ends in pairs]
        again = [ends for ends in asked if self._disagree(*ends[1:])]
        if self._held_out:
            by_hash = [ends for ends in asked if _shared(*ends[1:])]
            by_hash.sort(key=lambda one: content_hash("workload", self._seed, one[1].id, one[2].id))
            again = by_hash[: min(len(again), ONE_WORKLOAD)]
        for kind, anchor, candidate in again:
            yield self._question(kind, anchor, candidate, self._one_workload(anchor, candidate))
        for cell in filter(None, cells):
            pool = f"{cell[0].kernel.problem_id} {cell[0].kernel.backend} {cell[0].author} on {cell[0].kernel.gpu}"
            for one in self._pool(cell):
                yield self._question(QuestionKind.LEVEL, None, one, pool=pool)

    def _order(self, kernels: Iterable[Timed], purpose: str) -> list[Timed]:
        return sorted(kernels, key=lambda one: content_hash("question", self._seed, purpose, one.id))

    def _set_aside(self, members: Sequence[Timed]) -> list[Timed]:
        """Known kernels of different structures, both languages in turn, as far as few others must go with them."""
        twins: defaultdict[str, int] = defaultdict(int)
        for one in members:
            twins[one.kernel.structure_id] += 1
        order = self._order(members, "known")
        by_backend = [[one for one in order if one.kernel.backend is backend] for backend in Backend]
        left = int(SET_ASIDE * len(members))
        taken: dict[str, Timed] = {}
        for one in (one for turn in itertools.zip_longest(*by_backend) for one in turn if one is not None):
            structure = one.kernel.structure_id
            if structure not in taken and twins[structure] <= left and len(taken) < KNOWN:
                taken[structure] = one
                left -= twins[structure]
        return list(taken.values())

    def _edits(self, cell: Sequence[Timed]) -> list[Ends]:
        by_id = {one.id: one for one in cell}
        children = [one for one in self._order(cell, "edit") if one.kernel.parent_id in by_id]
        edits = [(by_id[str(one.kernel.parent_id)], one) for one in children]
        if not self._held_out:
            return edits
        taken: set[str] = set()
        apart = []
        for anchor, candidate in edits:
            near = abs(_length(candidate) - _length(anchor)) <= EDIT_LENGTH * _length(anchor)
            if near and not {anchor.id, candidate.id} & taken:
                taken |= {anchor.id, candidate.id}
                apart.append((anchor, candidate))
        return apart

    def _pairs(self, cell: Sequence[Timed], *, kin: bool) -> list[Ends]:
        """Kernels near in length, draw after draw, each two once and in a random order; parent and child if `kin`."""
        pairs: dict[frozenset[str], Ends] = {}
        by_length = _by_length(cell)
        for draw in range(MOST_DRAWS if self._held_out else DRAWS):
            first = draw % NEAR - NEAR
            drawn: list[Ends] = []
            for start in range(first, len(cell), NEAR):
                near = self._order(by_length[max(start, 0) : start + NEAR], f"draw {draw}")
                drawn += zip(near[::2], near[1::2], strict=False)
            for one, other in self._by_hash(drawn, f"draw {draw}"):
                if kin or (one.kernel.parent_id != other.id and other.kernel.parent_id != one.id):
                    pairs.setdefault(frozenset((one.id, other.id)), (one, other))
        return list(pairs.values())

    def _pool(self, cell: Sequence[Timed]) -> list[Timed]:
        """The kernels that are ranked, the same few first in every smaller part of the pool.

        Which stretch of a large cell they are hangs on the cell's first kernel: in another order of kernels, another.
        """
        if not self._held_out:
            return list(cell)
        start = int(content_hash("pool", self._seed, cell[0].id)[:8], 16) % max(len(cell) - POOL + 1, 1)
        near = self._order(_by_length(cell)[start : start + POOL], "pool")
        return near if len(near) >= LEAST_POOL else []

    def _chosen(self, cells: Iterable[list[Ends]], most: int) -> list[Ends]:
        """Of each cell the first, then of each the second, and so on, as many as a held-out problem takes."""
        turns = itertools.zip_longest(*cells)
        ends = (one for turn in turns for one in turn if one is not None)
        return list(itertools.islice(ends, most if self._held_out else None))

    def _disagree(self, anchor: Timed, candidate: Timed) -> bool:
        """Whether two workloads disagree on which kernel is faster, or by how much."""
        figures = [ratio(anchor.runtime_us[name], candidate.runtime_us[name]) for name in _shared(anchor, candidate)]
        surest = [(low or value, high or value) for value, low, high in figures]
        return bool(surest) and (
            math.log2(max(low for low, _ in surest) / min(high for _, high in surest)) >= DISAGREEMENT
        )

    def _one_workload(self, anchor: Timed, candidate: Timed) -> str:
        names = _shared(anchor, candidate)
        return min(names, key=lambda name: content_hash("workload", self._seed, anchor.id, candidate.id, name))

    def _by_hash(self, ends: Iterable[Ends], purpose: str) -> list[Ends]:
        return sorted(ends, key=lambda one: content_hash("pair", self._seed, purpose, one[0].id, one[1].id))

    def _question(
        self,
        kind: QuestionKind,
        anchor: Timed | None,
        candidate: Timed,
        workload: str | None = None,
        *,
        pool: str | None = None,
        core: bool = False,
    ) -> Question:
        kernel = candidate.kernel
        value, low, high = kernel.speedup, kernel.speedup_low, kernel.speedup_high
        if anchor is not None and candidate.runtime_us:
            value, low, high = ratio(anchor.runtime_us[workload], candidate.runtime_us[workload])
        anchor_id = None if anchor is None else anchor.id
        names = (kind.value, anchor_id or "reference", kernel.kernel_id, str(kernel.gpu), workload or "all")
        return Question(
            question_id=content_hash("question", *names), kind=kind, author=candidate.author,
            problem_id=kernel.problem_id, family=kernel.family, backend=kernel.backend, gpu=str(kernel.gpu),
            workload=workload, split=kernel.split, core=core, anchor_id=anchor_id, candidate_id=kernel.kernel_id,
            pool=pool, known_ids=self._known_ids, speedup=value, speedup_low=low, speedup_high=high,
            bin=None if value is None else bins.bin_of(value),
        )  # fmt: skip


def _shared(anchor: Timed, candidate: Timed) -> list[str]:
    """Workloads on which both were timed."""
    return sorted({name for name in anchor.runtime_us if name in candidate.runtime_us and name is not None})


def _by_length(cell: Sequence[Timed]) -> list[Timed]:
    """From the shortest source to the longest, as questions show them."""
    return sorted(cell, key=lambda one: (_length(one), one.id))


def _length(one: Timed) -> int:
    return len(one.kernel.normalised or one.kernel.source)


def _core_pools(questions: Sequence[Question], seed: str) -> set[str]:
    """Ids of the levels in core: a few kernels of a few pools of each split, at equal steps along GPU and author."""
    pools: defaultdict[tuple[str, str], list[Question]] = defaultdict(list)
    for one in questions:
        if one.pool is not None and one.split != TRAINING:
            pools[one.split, one.pool].append(one)
    chosen: set[str] = set()
    for split in sorted({split for split, _ in pools}):
        large = [members for (of, _), members in pools.items() if of == split and len(members) >= CORE_POOL]
        large.sort(key=lambda m: (m[0].gpu, m[0].author, m[0].backend, content_hash("core", seed, str(m[0].pool))))
        steps = min(CORE_POOLS, len(large))
        for members in (large[int((step + 0.5) * len(large) / steps)] for step in range(steps)):
            chosen |= {one.question_id for one in members[:CORE_POOL]}
    return chosen
