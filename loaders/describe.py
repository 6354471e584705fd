"""Describe a corpus: card, plots, ledger, tasks and metadata, generated from the data and written into its folder."""

from __future__ import annotations

import os
from pathlib import Path

from kbench.loaders.card import render_card
from kbench.loaders.corpus import Corpus
from kbench.loaders.croissant import render_croissant
from kbench.loaders.eval_tasks import render_eval
from kbench.loaders.files import CARD, CROISSANT, EVAL, LEDGER, PLOTS
from kbench.loaders.findings import findings_of
from kbench.loaders.ledger import render_ledger
from kbench.loaders.writer import CorpusWriter, write_atomically


def describe(corpus: Corpus, folder: Path) -> None:
    """Write a corpus's description into its folder; the card comes last, so that the plots it shows are there."""
    found = findings_of(corpus)
    files = {f"{PLOTS}/{name}": text for name, text in found.plots.items()}
    if found.costs:
        files[LEDGER] = render_ledger(found.costs)
    tasks = render_eval(corpus)
    if tasks is not None:
        files[EVAL] = tasks
    files |= {CROISSANT: render_croissant(corpus), CARD: render_card(corpus, found)}
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        write_atomically(folder / name, text.encode())
    for path in [folder / LEDGER, folder / EVAL, *(folder / PLOTS).glob("*.svg")]:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink(missing_ok=True)


def refresh(path: str | os.PathLike[str]) -> str:
    """Describe a corpus anew; its rows stay.

    Returns:
        the fingerprint, which does not change.
    """
    with CorpusWriter(path) as writer:
        return writer.commit()
