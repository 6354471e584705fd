"""Whose data a corpus is: where its rows come from and under which licence, counted from the rows.

A corpus of rows measured by kbench is described by what kbench does. Any other is described by what is known of its
origins, and claims nothing else.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections import defaultdict
from collections.abc import Mapping

from kbench.loaders.card import datasheet
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.counts import distinct

OURS = "kbench"
"""The origin of rows that kbench measured."""
NOT_STATED = "not stated"


@dataclasses.dataclass(frozen=True, slots=True)
class Provenance:
    """Kernels by origin and licence."""

    groups: Mapping[tuple[str, str | None], int]

    @property
    def ours(self) -> bool:
        """Whether every kernel was measured by kbench; a corpus without kernels claims no other origin."""
        return all(origin == OURS for origin, _ in self.groups)

    @property
    def origins(self) -> tuple[str, ...]:
        """Every origin, by name."""
        return tuple(sorted({origin for origin, _ in self.groups}))

    @property
    def licences(self) -> tuple[str | None, ...]:
        """Every licence, None for none."""
        return tuple(sorted({licence for _, licence in self.groups}, key=str))

    @property
    def licence(self) -> str | None:
        """The licence of every kernel; None when they differ or one has none."""
        return self.licences[0] if len(self.licences) == 1 else None

    @property
    def licence_word(self) -> str:
        """The licence in the Hub's words."""
        if self.ours:
            return datasheet.LICENSE_NAME.lower()
        return self.licence.lower() if self.licence else "unknown" if None in self.licences else "other"

    def licence_text(self) -> str:
        """What may be done with the rows."""
        if self.ours:
            return f"[{datasheet.LICENSE_NAME}]({datasheet.LICENSE_URL}); each row names its origin and licence."
        unstated = sum(count for (_, licence), count in self.groups.items() if licence is None)
        stated = sorted(licence for licence in self.licences if licence is not None)
        parts = [f"Licences stated for kernels: {', '.join(stated)}."] if stated else []
        if unstated:
            parts.append(
                f"No licence is known for {unstated:,} of {sum(self.groups.values()):,} kernels: they may not be "
                "passed on, and `kbench data push` refuses them."
            )
        return " ".join([*parts, "The licence of kbench's own dataset does not apply here."])


def provenance_of(corpus: Corpus) -> Provenance:
    """Count a corpus's distinct kernels by origin and licence."""
    # Half of each id, as in `count`; a kernel measured on several GPUs has several rows.
    ids: defaultdict[tuple[str, str | None], array[int]] = defaultdict(lambda: array("Q"))
    columns = ["kernel_id", "origin", "license"]
    for batch in corpus.select("kernels", columns=columns).batches():
        for kernel, *group in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
            ids[group[0], group[1]].append(int(kernel[:16], 16))
    found = {group: distinct(some) for group, some in ids.items()}
    return Provenance(dict(sorted(found.items(), key=str)))


def sheet_of(provenance: Provenance) -> datasheet.Sheet:
    """What has to be said about a corpus and cannot be counted."""
    if provenance.ours:
        return datasheet.OURS
    told = ", ".join(provenance.origins)
    mixed = OURS in provenance.origins
    ours = "kbench measured the rows whose origin is kbench, and none of the others." if mixed else (
        "kbench measured none of them and verified none of them."
    )  # fmt: skip
    return datasheet.Sheet(
        name="kbench-import",
        title="Imported kernels",
        summary=f"GPU kernels with measurements that were made elsewhere, imported from: {told}. {ours}",
        motivation="To forecast, compare and re-measure kernels that others published, beside kbench's own dataset.",
        composition="failed and unmeasured kernels are kept as their origins state them.",
        distribution="By whoever imported it; kbench does not distribute it.",
        collection=(
            "The kernels were written, verified and timed by their origins, with methods that kbench does not know and "
            "did not check. `kbench data import` read the files, converted times to microseconds, and checked that "
            "figures which state the same agree. import.json lists what was read, what was left out and why."
        ),
        missing="What an origin does not state is null, never a guess.",
        precision="No intervals are known unless a row has them; `env_id` is null where kbench did not measure.",
        preprocessing=(
            "All imported rows are in the split that the import was told. Pairs were drawn by hashes of ids. Nothing "
            "was done about near-duplicates across origins. Speedups are labelled with half-octave bins."
        ),
        use_cases="Rating forecasters on kernels of other origins; re-measuring published kernels.",
        biases="What the origins chose to publish: often the best kernels, the correct ones, or those of one model.",
        limitations=(
            "Runtimes hold for the origins' machines, software and sizes, which are known only as far as rows state "
            "them. Figures of different origins were taken by different methods and do not compare."
        ),
        social_impact="Not assessed.",
        personal="Not checked: texts of kernels may name their authors.",
        maintenance="None beyond what the importer of the files does.",
        license_url=provenance.licence or NOT_STATED,
        citation=None,
        creator=f"The origins of the rows: {told}",
        generated_by=f"The origins of the rows ({told}), by methods of their own; imported by kbench.",
    )
