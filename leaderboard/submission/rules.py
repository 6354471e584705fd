"""The rules of a submission: every problem is explained at once, with file, field, value and fix."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.surrogates.ask import INTERRUPTED
from kbench.benchmark.surrogates.forecasts import REPEATS
from kbench.benchmark.tracks import pairs_only
from kbench.leaderboard.submission.archive import FORECAST_FILES, METADATA_FILE, read_files
from kbench.leaderboard.submission.characters import oddity
from kbench.leaderboard.submission.flaws import Flaw, value_flaws
from kbench.leaderboard.submission.untrusted import parse_json, read_forecasts, shown
from kbench.schemas import DataError, Submission, from_dict, json_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from jsonschema import Draft202012Validator

MOST_TIMES = 2
"""Rows read for each one asked for, so that repeated and unknown ones can be named; files with more are refused."""
MOST_SECONDS, MOST_TOKENS = 1e10, 10**15
"""Caps on what all forecasts together may have cost, so that figures made of them stay finite."""


@dataclasses.dataclass(frozen=True, slots=True)
class Expected:
    """What a submission must answer, known without any label."""

    fingerprint: str
    query_ids: Sequence[str]
    pair_ids: frozenset[str] | None = None
    """Those that the pair tracks ask; an entry for these tracks alone needs to answer no others."""
    other_ids: frozenset[str] = frozenset()
    """Queries that may be answered and do not count: the rest of a split of which only a part is asked."""
    releases: frozenset[str] = frozenset()
    """Fingerprints of releases of the same dataset: an entry made for one counts where its queries are the same."""

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        pairs = None if self.pair_ids is None else sorted(self.pair_ids)
        asked = {"query_ids": list(self.query_ids), "pair_ids": pairs, "other_ids": sorted(self.other_ids)}
        return {"fingerprint": self.fingerprint, "releases": sorted(self.releases)} | asked

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Expected:
        """From plain JSON values."""
        pairs = value["pair_ids"]
        others, releases = frozenset(value["other_ids"]), frozenset(value["releases"])
        pairs = None if pairs is None else frozenset(pairs)
        return cls(value["fingerprint"], value["query_ids"], pairs, others, releases)

    def required(self, submission: Submission | None) -> set[str]:
        """The queries an entry must answer, by the tracks it is for."""
        pairs_alone = submission is not None and pairs_only(submission.tracks)
        return set(self.pair_ids) if pairs_alone and self.pair_ids is not None else set(self.query_ids)


Inspected = tuple[list[Flaw], Submission | None, "pa.Table | None", str]
"""What is wrong, the metadata, the forecasts, and the digest of the files."""


def inspect(path: Path, expected: Expected | None) -> Inspected:
    """Everything wrong with a submission; called where a crash may happen."""
    try:
        files = read_files(path)
    except DataError as error:
        return [Flaw(path.name, "file", "unreadable", str(error))], None, None, ""
    submission, flaws = _check_metadata(files.get(METADATA_FILE))
    table, more = _check_forecasts(files, submission, expected)
    flaws += more
    known = None if expected is None else {expected.fingerprint, *(() if more else expected.releases)}
    if submission is not None and expected is not None and submission.dataset_fingerprint not in (known or ()):
        value = submission.dataset_fingerprint
        fix = f"this dataset is {expected.fingerprint}: forecast its queries and state that fingerprint"
        flaws.append(Flaw(METADATA_FILE, "dataset_fingerprint", value, fix))
    return flaws, submission, table, _digest(files)


def _digest(files: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, data in sorted(files.items()):
        digest.update(f"{name} {len(data)} ".encode() + data)
    return digest.hexdigest()


def _check_metadata(data: bytes | None) -> tuple[Submission | None, list[Flaw]]:
    if data is None:
        return None, [Flaw(METADATA_FILE, "file", "missing", "add it; docs/leaderboard.md says how")]
    try:
        value = parse_json(data, METADATA_FILE)
    except DataError as error:
        return None, [Flaw(METADATA_FILE, "file", "unreadable", str(error))]
    errors = sorted(_validator().iter_errors(value), key=lambda e: list(map(str, e.path)))
    if errors:
        return None, [_schema_flaw(error) for error in errors[:50]]
    try:
        submission = from_dict(Submission, value)
    except DataError as error:
        return None, [Flaw(METADATA_FILE, "record", "invalid", str(error))]
    if submission.schema_version != Submission.VERSION:
        fix = f"this kbench reads {Submission.VERSION}"
        return None, [Flaw(METADATA_FILE, "schema_version", shown(submission.schema_version), fix)]
    checks = (_left_open, _empty_flaws, _cost_flaws, _date_flaws, _unseen_flaws)
    return submission, [flaw for one in checks for flaw in one(submission)]


def _left_open(submission: Submission) -> Iterable[Flaw]:
    """What `kbench evaluate` leaves for the author to say."""
    for name in ("authors", "license", "hardware", "training_data", "contamination"):
        value = getattr(submission, name)
        for text in value if isinstance(value, tuple) else (value,):
            if text.startswith("unknown: "):
                yield Flaw(METADATA_FILE, name, shown(text), f"only you know: {text.removeprefix('unknown: ')}")


def _empty_flaws(submission: Submission) -> Iterable[Flaw]:
    """Lists that say nothing."""
    for name, fix in (("authors", "name who made it"), ("tracks", "name the tracks that the forecasts are for")):
        if not getattr(submission, name):
            yield Flaw(METADATA_FILE, name, "[]", fix)


def _cost_flaws(submission: Submission) -> Iterable[Flaw]:
    """Costs that no set of forecasts has."""
    for name, most in (("total_seconds", MOST_SECONDS), ("total_tokens", MOST_TOKENS)):
        value = getattr(submission, name)
        if value is not None and value > most:
            yield Flaw(METADATA_FILE, name, shown(value), f"must be at most {most:,.0f}")


def _unseen_flaws(submission: Submission) -> Iterable[Flaw]:
    """Characters that turn text around or cannot be seen, and links that look like others."""
    for field in dataclasses.fields(submission):
        value = getattr(submission, field.name)
        for text in value if isinstance(value, tuple) else (value,):
            odd = oddity(text) if isinstance(text, str) else None
            if odd is not None:
                yield Flaw(METADATA_FILE, field.name, shown(text), odd)
    for link in submission.links:
        if not link.isascii():
            yield Flaw(METADATA_FILE, "links", shown(link), "write the address in ASCII, as a browser copies it")


def _date_flaws(submission: Submission) -> Iterable[Flaw]:
    try:
        datetime.datetime.fromisoformat(submission.created_at)
    except ValueError:
        yield Flaw(METADATA_FILE, "created_at", shown(submission.created_at), "give a date such as 2026-02-14")


@functools.cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json_schema(Submission))


def _schema_flaw(error: Any) -> Flaw:
    field = "/".join(map(str, error.path)) or "(top level)"
    reason = str(error.message)
    return Flaw(METADATA_FILE, field, shown(error.instance), reason if len(reason) < 300 else reason[:300] + "…")


def _check_forecasts(
    files: Mapping[str, bytes], submission: Submission | None, expected: Expected | None
) -> tuple[pa.Table | None, list[Flaw]]:
    given = [name for name in FORECAST_FILES if name in files]
    if len(given) != 1:
        value = "missing" if not given else "given twice"
        return None, [Flaw("forecasts", "file", value, f"give exactly one of {' or '.join(FORECAST_FILES)}")]
    name = given[0]
    try:
        table = read_forecasts(files[name], name)
    except DataError as error:
        return None, [Flaw(name, "file", "unreadable", str(error))]
    if expected is not None and table.num_rows > MOST_TIMES * (most := _most_rows(expected, submission)):
        return None, [Flaw(name, "rows", f"{table.num_rows:,}", f"give one row per query and repeat, {most:,} in all")]
    flaws = [*value_flaws(table, name), *_repeat_flaws(table, name, submission), *_unasked(table, name)]
    flaws += _repeated(table, name)
    if expected is not None:
        flaws += _query_flaws(table, name, expected, submission)
    return table, flaws


def _most_rows(expected: Expected, submission: Submission | None) -> int:
    return (len(expected.query_ids) + len(expected.other_ids)) * (
        submission.repeats if submission is not None else REPEATS
    )


def _repeat_flaws(table: pa.Table, name: str, submission: Submission | None) -> list[Flaw]:
    repeats = np.asarray(table.column("repeat").fill_null(0))
    if not len(repeats):
        return [Flaw(name, "rows", "0", "a submission answers every query")]
    if submission is None or (submission.repeats == int(repeats.max()) + 1 and repeats.min() == 0):
        return []
    value = f"{int(repeats.min())}…{int(repeats.max())}"
    return [Flaw(name, "repeat", value, f"submission.json states {submission.repeats} repeats, numbered from 0")]


def _unasked(table: pa.Table, name: str) -> Iterable[Flaw]:
    """Rows of an evaluation that was interrupted: no answers, though they say that they failed."""
    rows = table.column("failure").to_pylist().count(INTERRUPTED)
    if rows:
        fix = "run the same `kbench evaluate` again, which goes on where it stopped"
        yield Flaw(name, "failure", f"{rows:,} rows {INTERRUPTED!r}", fix)


def _repeated(table: pa.Table, name: str) -> Iterable[Flaw]:
    """A query and repeat that more than one row answers."""
    rows = zip(table.column("query_id").to_pylist(), table.column("repeat").fill_null(0).to_pylist(), strict=True)
    for (query, repeat), count in Counter(rows).most_common(1):
        if count > 1:
            yield Flaw(name, "query_id", f"{shown(query)} repeat {repeat} twice", "keep one row each")


def _query_flaws(table: pa.Table, name: str, expected: Expected, submission: Submission | None) -> list[Flaw]:
    ids = table.column("query_id").to_pylist()
    repeats = table.column("repeat").fill_null(0).to_pylist()
    asked = {*expected.query_ids, *expected.other_ids}
    flaws = []
    unknown = sorted({str(query) for query in ids if query not in asked})
    if unknown:
        fix = "these are not queries of this dataset; export them with `kbench leaderboard export-queries`"
        flaws.append(Flaw(name, "query_id", f"{shown(unknown[0])} and {len(unknown) - 1} more unknown", fix))
    keys = list(zip(ids, repeats, strict=True))
    required = expected.required(submission)
    wanted = len(required) * (submission.repeats if submission is not None else 1)
    present = len({key for key in keys if key[0] in required})
    if present < wanted:
        missing = sorted(required - set(ids))
        example = f", such as {missing[0]}" if missing else ""
        fix = f"answer every query in every repeat{example}; a row with `failure` set is an answer too"
        flaws.append(Flaw(name, "rows", f"{wanted - present:,} of {wanted:,} missing", fix))
    return flaws
