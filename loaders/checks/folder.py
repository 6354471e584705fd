"""Checks of what a corpus folder says about itself: its card and its manifest must speak of the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbench.loaders.checks.columns import Issue
from kbench.loaders.corpus.manifest import CARD, NAME, Manifest, read_manifest


def folder_issues(folder: Path) -> Iterator[Issue]:
    """A fingerprint that is not the rows', and a card by which `datasets` would read other files than we do."""
    manifest = read_manifest(folder, check_files=False)
    if manifest.stated != manifest.fingerprint:
        message = f"the hashes of its files make it {manifest.fingerprint!r}"
        yield Issue(str(folder / NAME), None, "fingerprint", manifest.stated, message)
    for fault in _card_faults(folder / CARD, manifest):
        fix = f"rewrite it with: kbench data card {folder} --write"
        yield Issue(str(folder / CARD), None, None, None, f"{fault}; {fix}")


def _card_faults(card: Path, manifest: Manifest) -> Iterator[str]:
    """What the card says otherwise than the manifest, config by config."""
    told = card_configs(card) if card.is_file() else None
    if told is None:
        yield "the card is missing or cannot be read, so `datasets` guesses what the files are"
        return
    versions = manifest.versions()
    for name in sorted({*told, *versions}):
        version, files = told.get(name, (None, set()))
        listed = {(entry.split, entry.path) for entry in manifest.files.get(name, ())}
        extra, missing = sorted(files - listed), sorted(listed - files)
        if extra:
            yield f"config {name!r} names {extra[0][1]}, which the manifest does not"
        elif missing:
            yield f"config {name!r} leaves out {missing[0][1]}, which the manifest names"
        elif version != versions.get(name):
            yield f"config {name!r} has version {version}, its rows have {versions.get(name)}"


def card_configs(card: Path) -> dict[str, tuple[Any, set[tuple[str, str]]]] | None:
    """Version and files, as (split, path), of each config that a card describes; None when it cannot be read."""
    import yaml

    try:
        # The parser in C is ten times as fast; some builds of the package lack it.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        front = yaml.load(card.read_text(encoding="utf-8").split("---\n")[1], Loader=loader)
        return {
            str(config["config_name"]): (
                config.get("version"),
                {(str(files["split"]), str(path)) for files in config["data_files"] for path in files["path"]},
            )
            for config in front["configs"]
        }
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
