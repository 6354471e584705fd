"""Whose data a corpus is: where its rows come from and under which licence, counted from the rows.

A corpus of rows measured by kbench is described by what kbench does. Any other is described by what is known of its
origins, and claims nothing else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import polars
import yaml

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.coverage import gathered

OURS = "kbench"
"""The origin of rows that kbench measured."""
NOT_STATED = "not stated"
_TEXTS = yaml.safe_load(Path(__file__).with_name("sheets.yaml").read_text(encoding="utf-8"))
LICENCE: str = _TEXTS["license"]
EXECUTION: str = _TEXTS["execution"]
"""What to know before running a kernel."""


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
            return LICENCE.lower()
        return self.licence.lower() if self.licence else "unknown" if None in self.licences else "other"

    def licence_text(self) -> str:
        """What may be done with the rows."""
        if self.ours:
            return f"[{LICENCE}]({_TEXTS['ours']['license_url']}); each row names its origin and licence."
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
    columns = ("kernel_id", "origin", "license")
    rows = gathered(corpus.select("kernels", columns=columns), polars.col("kernel_id").hash(), *columns[1:])
    # A kernel measured on several GPUs has several rows.
    counts = rows.group_by("origin", "license").agg(polars.col("kernel_id").n_unique())
    return Provenance(
        dict(sorted((((origin, licence), number) for origin, licence, number in counts.iter_rows()), key=str))
    )


def _sheet(texts: Mapping[str, str]) -> SimpleNamespace:
    """What has to be said about one corpus and cannot be counted, by name, as sheets.yaml has it.

    A sheet without `generated_by` is of rows that say themselves who made them.
    """
    return SimpleNamespace(**{"citation": None, "generated_by": None, **texts})


SHEET = _sheet(_TEXTS["ours"])
"""The texts of kbench's own dataset."""


def sheet_of(provenance: Provenance) -> SimpleNamespace:
    """The texts of a corpus, by whose data it is."""
    if provenance.ours:
        return SHEET
    measured = "kbench measured none of them and verified none of them."
    if OURS in provenance.origins:
        measured = "kbench measured the rows whose origin is kbench, and none of the others."
    facts = {
        "origins": ", ".join(provenance.origins), "measured": measured, "licence": provenance.licence or NOT_STATED,
    }  # fmt: skip
    return _sheet({name: text.format(**facts) for name, text in _TEXTS["imported"].items()})


def citation_of(corpus: Corpus, provenance: Provenance) -> str | None:
    """How to cite a corpus: what is said of its kind, with the release and fingerprint of this one."""
    citation: str | None = sheet_of(provenance).citation
    if citation is None:
        return None
    release = f"  version = {{{corpus.manifest.release}}},\n" if corpus.manifest.release else ""
    fingerprint = f"  note = {{Fingerprint {corpus.fingerprint}}},\n"
    return citation.strip().removesuffix("}") + release + fingerprint + "}"
