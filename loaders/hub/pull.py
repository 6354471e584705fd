"""Pull a dataset by name: the published release, imported; or a kbench corpus from the Hub, checked file by file."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.manifest import NAME as MANIFEST
from kbench.loaders.corpus.manifest import PULLED, other_files, read_manifest
from kbench.loaders.corpus.places import HUB_ID, data_home, is_corpus
from kbench.loaders.hub.repository import commit_of, fetch_files
from kbench.loaders.importers import gpu_forecasters as published
from kbench.loaders.importers.context import ImportSettings
from kbench.loaders.importers.run import REPORT, import_files
from kbench.loaders.storage.atomic import whole_folder
from kbench.loaders.storage.hub_client import evict_damaged
from kbench.schemas import DataError, UnknownNameError, UserError

UNSAID = f"which does not say where it came from (no readable {PULLED}; an earlier kbench wrote none)"
"""Of a corpus that may have been pulled from anywhere, or from nowhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pulled:
    """What came of a pull."""

    folder: Path
    revisions: Mapping[str, str]
    """Commit by repository."""
    report: Mapping[str, Any]


def pull_release(
    out: Path | None = None,
    *,
    only: Sequence[str] = (),
    revisions: Mapping[str, str] | None = None,
    on_bad_rows: str = "skip",
    say: Callable[[str], object] = lambda _: None,
    importing: Callable[[int], AbstractContextManager[Callable[[int], object]]] = lambda _: nullcontext(lambda _: None),
) -> Pulled:
    """Download the published release and import it; what was pulled before is replaced when the new one is whole.

    Args:
        out: the corpus folder; gpu-forecasters in the data folder when left out.
        only: datasets to pull; all five when empty.
        revisions: commit, tag or branch by dataset; `""` stands for all; the newest commit when left out.
        on_bad_rows: error or skip.
        say: told what begins.
        importing: given the bytes to import, a context that gives what is told of every few that were.

    Raises:
        UnknownNameError: the release has no such dataset.
        UserError: a repository or revision does not exist, predictions are asked without what they answer, or a
            corpus from elsewhere is in the release's place.
        InfrastructureError: the Hub does not answer, or the disk is full.
        DataError: a dataset is not what it was when this importer was written.
    """
    wanted = tuple(only) or published.DATASETS
    asked = revisions or {}
    for name in (*wanted, *(name for name in asked if name)):
        if name not in published.DATASETS:
            raise UnknownNameError("dataset of gpu-forecasters", name, published.DATASETS)
    if published.PREDICTIONS in wanted and published.EVAL not in wanted:
        raise UserError(f"--only {published.PREDICTIONS} needs {published.EVAL} too: forecasts answer its rows")
    target = out or data_home() / published.NAME
    _refuse_other(target, published.NAME)
    commits: dict[str, str] = {}
    files: list[Path] = []
    for name in wanted:
        repository = published.repository(name)
        commits[name] = commit_of(repository, asked.get(name) or asked.get("") or None)
        say(f"fetching {repository}@{commits[name][:12]}")
        parquet_files = fetch_parquet(repository, commits[name])
        if not parquet_files:
            raise DataError(
                f"repository {repository!r} holds no Parquet file at {commits[name]}; its layout has changed"
            )
        files += parquet_files
    settings = ImportSettings(on_bad_rows=on_bad_rows, revisions=commits)
    with importing(sum(path.stat().st_size for path in files)) as advance:
        report = import_files(published.NAME, files, target, settings, advance, replace=out is None)
    return Pulled(target, {published.repository(name): sha for name, sha in commits.items()}, report.to_json())


def fetch_parquet(repository: str, commit: str) -> list[Path]:
    """The Parquet files of a repository at a commit, by path."""
    folder = fetch_files(repository, commit, ["*.parquet", "**/*.parquet", "README.md"])
    return sorted(folder.rglob("*.parquet"))


def pull_corpus(repository: str, out: Path | None = None, revision: str | None = None) -> Pulled:
    """Download a kbench corpus and check every file against its manifest.

    Args:
        repository: owner/name.
        out: the folder; the repository's name in the data folder when left out.
        revision: commit, tag or branch; the newest commit when left out.

    Raises:
        UserError: there is no such repository or revision, it is no kbench corpus, or a corpus from elsewhere is in
            its place.
        InfrastructureError: the Hub does not answer, or the disk is full.
        DataError: a file is not what the manifest says.
    """
    if HUB_ID.match(repository) is None:
        raise UserError(f"{repository!r} is neither gpu-forecasters nor a Hub id such as owner/name")
    target = out or data_home() / repository.split("/")[1]
    commit = commit_of(repository, revision)
    _refuse_other(target, repository, lambda: _has_rows_of(target, repository, commit))
    folder = fetch_files(repository, commit)
    try:
        corpus = Corpus.open(folder, verified=True)
    except DataError:
        # The cache may be damaged, not the repository: a second look is at bytes that were fetched again.
        evict_damaged(folder, unproven=True)
        folder = fetch_files(repository, commit)
        corpus = Corpus.open(folder, verified=True)
    manifest = read_manifest(folder)
    unnamed = {path.relative_to(folder).as_posix() for path in manifest.strays(folder)}
    with whole_folder(target, replace=out is None and is_corpus(target)) as aside:
        for relative in (name for name in other_files(folder) if name not in unnamed):
            (aside / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / relative, aside / relative)
        source = {"repository": repository, "commit": commit}
        (aside / PULLED).write_text(json.dumps(source, indent=1) + "\n", encoding="utf-8")
        shutil.copyfile(folder / MANIFEST, aside / MANIFEST)
    rows = {name: corpus.rows(name) for name in corpus.configs}
    return Pulled(target, {repository: commit}, {"rows": rows, "fingerprint": corpus.fingerprint})


def _refuse_other(target: Path, source: str, has_its_rows: Callable[[], bool] = lambda: False) -> None:
    """Refuse to put a corpus in the place of one from elsewhere: the data folder tells corpora apart by bare names.

    Args:
        target: the folder.
        source: where the new corpus comes from.
        has_its_rows: asked when the corpus that is there does not say where it came from; equal rows may be replaced.

    Raises:
        UserError: names what is there, and how both can be had.
    """
    if not is_corpus(target):
        return
    there = _source(target)
    if there == source or (there is None and has_its_rows()):
        return
    whose = f"one pulled from {there!r}" if there else UNSAID
    raise UserError(
        f"pulling {source!r} would replace the corpus in {str(target)!r}, {whose}; "
        "pull into another folder with --out, or remove that one first"
    )


def _has_rows_of(target: Path, repository: str, commit: str) -> bool:
    """Whether two corpora have the same rows, by their manifests alone; files of the target may be damaged."""
    try:
        mine = read_manifest(target, check_files=False).config_hashes
    except DataError:
        return False
    return read_manifest(fetch_files(repository, commit, [MANIFEST]), check_files=False).config_hashes == mine


def _source(folder: Path) -> str | None:
    """The repository a corpus was pulled from, or the format it was imported from; None when nothing says."""
    for name, field in ((PULLED, "repository"), (REPORT, "format")):
        try:
            return str(json.loads((folder / name).read_text(encoding="utf-8"))[field])
        except FileNotFoundError:
            continue
        except (OSError, ValueError, LookupError, TypeError):
            return None
    return None
