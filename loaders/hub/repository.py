"""The Hugging Face Hub: fetch dataset repositories pinned by commit, and push a corpus that may be redistributed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.manifest import CARD, CROISSANT, EVAL, LEDGER, PLOTS, read_manifest
from kbench.loaders.corpus.manifest import NAME as MANIFEST
from kbench.loaders.corpus.places import HUB_ID
from kbench.loaders.storage.hub_client import download, evict_damaged, limit_waits, plain_errors
from kbench.loaders.storage.lock import held
from kbench.schemas import DataError, UserError

COMPANIONS = (CARD, CROISSANT, MANIFEST, LEDGER, EVAL)
"""What is pushed beside the tables."""
OPEN_LICENCES = re.compile(
    r"(?:CC-BY-(?:SA-)?[34]\.0|CC0-1\.0|Apache-2\.0|MIT|MIT-0|BSD-[23]-Clause|ISC|Unlicense|0BSD|BSL-1\.0|"
    r"CDLA-Permissive-[12]\.0|ODC-By-1\.0|PDDL-1\.0|MPL-2\.0)"
)
"""Licences that let the text be passed on."""
COMMIT = re.compile(r"[0-9a-f]{40}")


def commit_of(repository: str, revision: str | None = None) -> str:
    """The commit a branch or tag points to, so that what is fetched is pinned."""
    from huggingface_hub import HfApi

    if revision is not None and COMMIT.fullmatch(revision):
        return revision
    limit_waits()
    with plain_errors(repository):
        return str(HfApi().dataset_info(repository, revision=revision).sha)


def fetch_files(repository: str, commit: str, patterns: Sequence[str] | None = None) -> Path:
    """A repository's files at a commit, or those that fit a pattern; what the cache holds damaged is fetched anew."""
    folder = download(repository, commit, patterns)
    if evict_damaged(folder):
        folder = download(repository, commit, patterns)
        damaged = evict_damaged(folder)
        if damaged:
            raise DataError(f"{damaged[0]} of {repository!r} is damaged: its bytes differ from the hash the Hub states")
    return folder


def push(
    folder: Path,
    repository: str,
    *,
    private: bool = False,
    dry_run: bool = False,
    advance: Callable[[int], object] = lambda _: None,
) -> dict[str, Any]:
    """Upload a corpus as a dataset repository; what a broken upload sent before is not sent again.

    Returns:
        what was uploaded, and the URL it went to; None for a dry run.
    """
    from huggingface_hub import HfApi

    from kbench.loaders.checks.validate import validate

    if HUB_ID.match(repository) is None:
        raise UserError(f"repository is {repository!r}; it must be owner/name")
    corpus = Corpus.open(folder)
    issues = validate(corpus, advance)
    if issues:
        raise DataError(f"the corpus does not validate ({len(issues)} issues): {issues[0]}; see kbench data validate")
    refuse_closed(corpus)
    files = [entry.path for name in corpus.configs for entry in corpus.files(name)]
    described = [*COMPANIONS, *(f"{PLOTS}/{path.name}" for path in sorted((folder / PLOTS).glob("*.svg")))]
    listed = read_manifest(folder).companions
    files += [name for name in dict.fromkeys([*described, *listed]) if (folder / name).is_file()]
    size = sum((folder / name).stat().st_size for name in files)
    report = {"repository": repository, "fingerprint": corpus.fingerprint, "files": files, "bytes": size, "url": None}
    if dry_run:
        return report
    # Nobody may change the folder while its files are on their way.
    api, message = HfApi(), f"kbench corpus {corpus.fingerprint}"
    limit_waits()
    with held(folder), plain_errors(repository):
        url = api.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
        # Shards of an earlier state would be found by nobody's manifest.
        api.upload_folder(
            repo_id=repository, folder_path=folder, repo_type="dataset", commit_message=message, allow_patterns=files,
            delete_patterns=["*.parquet"],
        )  # fmt: skip
        api.create_tag(repository, tag=corpus.fingerprint, repo_type="dataset", exist_ok=True)
    return report | {"url": str(url)}


def refuse_closed(corpus: Corpus) -> None:
    """Refuse rows whose licence does not let them be passed on, or is not stated."""
    import pyarrow as pa

    table = corpus.table("kernels", columns=["origin", "license"])
    counted = pa.Table.group_by(table, ["origin", "license"]).aggregate([([], "count_all")]).to_pylist()
    for row in sorted(counted, key=lambda row: str(row["origin"])):
        licence = row["license"]
        if licence is None or OPEN_LICENCES.fullmatch(licence) is None:
            stated = "is not stated" if licence is None else f"is {licence!r}, which is not known to allow it"
            raise DataError(
                f"{row['count_all']:,} kernels of {row['origin']!r} may not be pushed: their licence {stated}; "
                "leave them out"
            )
    live = corpus.table("live", columns=["license"]).column("license").to_pylist() if "live" in corpus.configs else []
    closed = [licence for licence in live if OPEN_LICENCES.fullmatch(licence) is None]
    if closed:
        raise DataError(
            f"{len(closed):,} live kernels may not be pushed: their licence is {closed[0]!r}; leave them out"
        )
    pairs = corpus.table("pairs", columns=["origin"]).column("origin").to_pylist() if "pairs" in corpus.configs else []
    if strange := sorted(set(pairs) - {row["origin"] for row in counted}):
        raise DataError(f"pairs of {strange[0]!r} may not be pushed: no kernel states that origin's licence")
