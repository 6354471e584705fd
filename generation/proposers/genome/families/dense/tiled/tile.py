"""Tile: the geometry of one block's work in CUDA, derived from a genome."""

from __future__ import annotations

import dataclasses

from kbench.generation.proposers.genome.families.dense.tiled.product import Product
from kbench.generation.proposers.genome.family import Genome

STAGED_PAD = 4
"""Floats between rows of the staged output tile: keeps rows 16-byte aligned and spreads them over banks."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tile:
    """Sizes, thread arrangement and shared-memory layout."""

    bm: int
    bn: int
    bk: int
    across: int
    """Thread or warp columns."""
    down: int
    """Thread or warp rows."""
    warped: bool
    """Whether `across` and `down` count warps."""
    item_bytes: int
    vector: int
    """Elements one copy moves."""
    buffers: int
    """Copies of the operand tiles in shared memory."""
    pad: int
    """Elements between rows of an operand tile."""
    a_rows_k: bool
    """Whether A's shared rows run along m, so that a row is one k."""
    b_rows_k: bool
    """Whether B's shared rows run along n, so that a row is one k."""
    staged: bool
    """Whether outputs pass through shared memory."""

    @classmethod
    def of(cls, product: Product, genome: Genome) -> Tile:
        """The geometry of a genome."""
        bm, bn, bk = (int(genome[f"block_{axis}"]) for axis in "mnk")
        warped = genome["engine"] not in ("simt", "dp4a")
        down, across = (int(part) for part in str(genome["warps" if warped else "thread_tile"]).split("x"))
        if not warped:
            down, across = bm // down, bn // across
        staging = genome["staging"]
        buffers = {"global": 0, "plain": 1, "prefetch": 2, "cp_async": int(genome["stages"])}[str(staging)]
        layouts = product.layouts(genome)
        flipped = bool(genome.get("flipped", False))
        return cls(
            bm=bm,
            bn=bn,
            bk=bk,
            across=across,
            down=down,
            warped=warped,
            item_bytes=product.item_bytes,
            vector=int(genome["vector"]) // product.item_bytes,
            buffers=buffers,
            pad=int(genome["pad"]) // product.item_bytes,
            a_rows_k=(layouts[0] == "km") != (flipped and layouts[0] == "mk"),
            b_rows_k=(layouts[1] == "kn") != (flipped and layouts[1] == "nk"),
            staged=genome.get("path") == "staged",
        )

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.across * self.down * (32 if self.warped else 1)

    @property
    def lda(self) -> int:
        """Elements from one shared row of A to the next."""
        return (self.bm if self.a_rows_k else self.bk) + self.pad

    @property
    def ldb(self) -> int:
        """Elements from one shared row of B to the next."""
        return (self.bn if self.b_rows_k else self.bk) + self.pad

    @property
    def a_stage(self) -> int:
        """Elements of one buffer of A."""
        return self.lda * (self.bk if self.a_rows_k else self.bm)

    @property
    def b_stage(self) -> int:
        """Elements of one buffer of B."""
        return self.ldb * (self.bk if self.b_rows_k else self.bn)

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory: operands, or the staged outputs that take their place."""
        operands = self.buffers * (self.a_stage + self.b_stage) * self.item_bytes
        outputs = self.bm * self.ldc * 4 if self.staged else 0
        return max(operands, outputs)

    @property
    def ldc(self) -> int:
        """Floats from one row of the staged outputs to the next."""
        return self.bn + STAGED_PAD

    @property
    def chunks_a(self) -> int:
        """Copies of A's tile that a thread makes."""
        return -(-self.bm * self.bk // self.vector // self.threads)

    @property
    def chunks_b(self) -> int:
        """Copies of B's tile that a thread makes."""
        return -(-self.bn * self.bk // self.vector // self.threads)
