"""Where pulled corpora live: $KBENCH_HOME, or ~/.cache/kbench; a corpus there opens by its bare name."""

from __future__ import annotations

import os
from pathlib import Path

from kbench.loaders.corpus.manifest import NAME


def data_home() -> Path:
    """The folder of pulled corpora."""
    return Path(os.environ.get("KBENCH_HOME") or Path.home() / ".cache" / "kbench")


def pulled(name: str) -> Path | None:
    """The folder of a pulled corpus, by its bare name; None when there is none."""
    if not name or "/" in name or name in (".", ".."):
        return None
    folder = data_home() / name
    return folder if (folder / NAME).is_file() else None
