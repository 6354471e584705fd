"""A corpus with a tuning table from what runs measured: tuning.py OUT [ROWS.jsonl.xz ...]; the pilot's rows by default.

kbench evaluate --tracks tune --dataset OUT then scores strategies on it.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

from kbench.generation.study.tuning import table_rows
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import TuningTime, from_dict

PILOT = Path(__file__).parents[1] / "tuning-pilot.jsonl.xz"


def main(out: str, *files: str) -> None:
    """Write a corpus."""
    texts = [lzma.decompress(Path(file).read_bytes()).decode() for file in files or (PILOT,)]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    with CorpusWriter(Path(out)) as writer:
        writer.append("tuning", [from_dict(TuningTime, row) for row in table_rows(rows)])


if __name__ == "__main__":
    main(*sys.argv[1:])
