"""What the instruction mix changes in `static-compiler`: its cross-validation over problems with and without.

python docs/evidence/scripts/instruction_mix.py      # writes docs/evidence/instruction-mix.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from kbench.benchmark.surrogates.static.features.mixes import MIXES_FILE, Mixes
from kbench.benchmark.surrogates.static.training.train import trained
from kbench.loaders.corpus.corpus import Corpus

OUT = Path(__file__).parents[1] / "instruction-mix.json"
CAPABILITY = "9.0"


class WithMix:
    """A corpus less the training kernels whose mix is not known."""

    def __init__(self, corpus: Corpus, mixes: Mixes) -> None:
        self._corpus, self._mixes = corpus, mixes
        self.fingerprint, self.configs = corpus.fingerprint, corpus.configs

    def table(self, name: str, *, columns: list[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered; pairs of kernels that are not there find no place in training."""
        found = self._corpus.table(name, columns=columns, **filters)
        if name != "kernels" or "split" not in filters:
            return found
        known = [self._mixes.get(each, CAPABILITY) is not None for each in found["kernel_id"].to_pylist()]
        return found.filter(pc.equal(pa.array(known), True))


def main() -> None:
    """Train four times, write what was held out."""
    corpus, mixes = Corpus.open(), Mixes.load(MIXES_FILE)
    document: dict[str, Any] = {"dataset": corpus.fingerprint, "mixes": len(mixes)}
    for title, tables in (("kernels with a mix", WithMix(corpus, mixes)), ("all kernels", corpus)):
        for learned in (False, True):
            found = trained(tables, compiled=True, mixes=mixes if learned else None)
            figures = found.held_out.figures()
            document.setdefault(title, {})["with" if learned else "without"] = figures | {"model": found.model.facts}
            OUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            click.echo(f"{title}, {'with' if learned else 'without'}: {json.dumps(figures['all'])}")


if __name__ == "__main__":
    main()
