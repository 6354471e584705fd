"""Validate a corpus: each file by columns and against the manifest, then what rows say about one another."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.checks import columns
from kbench.loaders.checks.columns import Issue, rows_where
from kbench.loaders.checks.references import Part, duplicates, figure_issues, reference_issues
from kbench.loaders.corpus.configs import CONFIGS, WHOLE, Config
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.manifest import CARD, FileEntry, Manifest, read_manifest
from kbench.loaders.corpus.shards import Contents, manifest_faults, read_parquet, with_all_columns
from kbench.schemas import DataError, PairKind, QuestionKind
from kbench.schemas.bins import EDGES
from kbench.schemas.ids import kernel_id


def validate(corpus: Corpus, advance: Callable[[int], object] = lambda _: None) -> list[Issue]:
    """Everything wrong with a corpus; empty when it is sound."""
    issues: list[Issue] = []
    parts: dict[str, list[Part]] = {}
    for name in corpus.configs:
        parts[name] = []
        for path, entry in corpus.select(name).files:
            table, found = _read(CONFIGS[name], path, entry)
            issues += found
            if table is not None:
                parts[name].append((str(path), table))
                issues += _file_issues(CONFIGS[name], str(path), table, entry.split)
            advance(entry.rows)
    issues += relation_issues(parts)
    for folder in corpus.folders:
        issues += _folder_issues(folder)
    return issues


def table_issues(tables: Mapping[str, pa.Table]) -> list[Issue]:
    """Everything wrong with rows in memory, by config; each table stands for a file of its config's name."""
    issues: list[Issue] = []
    for name, table in tables.items():
        issues += _file_issues(CONFIGS[name], name, table, WHOLE)
    return issues + list(relation_issues({name: [(name, table)] for name, table in tables.items()}))


def relation_issues(parts: Mapping[str, list[Part]]) -> Iterator[Issue]:
    """What is wrong between rows, of one config and of several."""
    every = {name: parts.get(name, []) for name in CONFIGS}
    for name, tables in every.items():
        yield from duplicates(CONFIGS[name], tables)
    yield from reference_issues(every)
    yield from figure_issues(every)


def _read(config: Config, path: Path, entry: FileEntry) -> tuple[pa.Table | None, list[Issue]]:
    try:
        table = read_parquet(path)
    except DataError as error:
        return None, [Issue(str(path), None, None, None, str(error).removeprefix(f"{path} "))]
    issues = list(columns.schema_issues(config, table.schema, str(path)))
    if issues:
        return None, issues
    table = with_all_columns(config, table)
    contents = Contents.of(config, [table])
    return table, [Issue(str(path), None, *fault) for fault in manifest_faults(config, path, entry, contents)]


def _file_issues(config: Config, file: str, table: pa.Table, split_of_file: str) -> Iterator[Issue]:
    yield from columns.column_issues(config, table, file)
    yield from columns.status_issues(table, file)
    yield from columns.interval_issues(table, file)
    yield from columns.sample_issues(table, file)
    if config.is_split:
        split = table.column("split")
        allowed = list(config.splits) if split_of_file == WHOLE else [split_of_file]
        strange = pc.invert(pc.is_in(split, value_set=pa.array(allowed)))
        yield from rows_where(strange, file, "split", split, f"must be {' or '.join(allowed)} in this file")
    if config.name in ("kernels", "live"):
        yield from _kernel_ids(file, table)
    if config.name in ("pairs", "questions"):
        yield from _bins(file, table)
        yield from _anchors(file, table)
    if config.name == "events":
        yield from _payloads(file, table)


def _kernel_ids(file: str, table: pa.Table) -> Iterator[Issue]:
    names = ("problem_id", "backend", "source", "kernel_id")
    rows = zip(*(table.column(name).to_pylist() for name in names), strict=True)
    wrong = [None not in row and kernel_id(*row[:3]) != row[3] for row in rows]
    message = "must be the hash of problem, backend and source"
    yield from rows_where(pa.array(wrong, pa.bool_()), file, "kernel_id", table.column("kernel_id"), message)


def _bins(file: str, table: pa.Table) -> Iterator[Issue]:
    import numpy

    speedup = pc.fill_null(table.column("speedup"), float("nan")).to_numpy()
    expected = numpy.searchsorted(numpy.asarray(EDGES), speedup, side="right") + 1
    wrong = pc.and_(pc.not_equal(table.column("bin"), pa.array(expected)), pc.is_finite(table.column("speedup")))
    message = "disagrees with the speedup (see kbench.schemas.bins)"
    yield from rows_where(wrong, file, "bin", table.column("bin"), message)


def _anchors(file: str, table: pa.Table) -> Iterator[Issue]:
    """The anchor of a pair or question is a kernel, unless it is the PyTorch reference."""
    anchor = table.column("anchor_id")
    reference = QuestionKind.LEVEL.value if "question_id" in table.column_names else PairKind.REFERENCE.value
    against_reference = pc.equal(table.column("kind"), reference)
    stray = pc.and_(against_reference, pc.is_valid(anchor))
    yield from rows_where(stray, file, "anchor_id", anchor, f"must be null when kind is {reference}")
    missing = pc.and_(pc.invert(against_reference), pc.is_null(anchor))
    yield from rows_where(missing, file, "anchor_id", anchor, f"must be set unless kind is {reference}")


def _payloads(file: str, table: pa.Table) -> Iterator[Issue]:
    """Events whose fields are no JSON object."""
    payload = table.column("payload_json")
    wrong = [text is not None and not _is_object(text) for text in payload.to_pylist()]
    yield from rows_where(pa.array(wrong, pa.bool_()), file, "payload_json", payload, "must be a JSON object")


def _is_object(text: str) -> bool:
    try:
        # NaN and Infinity, which Python reads and JSON does not know, are no integers.
        return isinstance(json.loads(text, parse_constant=int), dict)
    except (ValueError, RecursionError):
        return False


def _folder_issues(folder: Path) -> Iterator[Issue]:
    """A fingerprint that is not the rows', and a card by which `datasets` would read other files than we do."""
    manifest = read_manifest(folder, check_files=False)
    fix = f"rewrite it with: kbench data info {folder} --card write"
    card = folder / CARD
    of_card = [Issue(str(card), None, None, None, f"{fault}; {fix}") for fault in _card_faults(card, manifest)]
    for path, field, value, message in manifest.faults(folder):
        if path != card or not of_card:
            yield Issue(str(path), None, field, value, message)
    for path in manifest.strays(folder):
        yield Issue(str(path), None, None, None, "the manifest does not name it")
    yield from of_card


def _card_faults(card: Path, manifest: Manifest) -> Iterator[str]:
    """What the card says otherwise than the manifest, config by config."""
    configs = card_configs(card) if card.is_file() else None
    if configs is None:
        yield "the card is missing or cannot be read, so `datasets` guesses what the files are"
        return
    for name in sorted({*configs, *(name for name, entries in manifest.files.items() if entries)}):
        files = configs.get(name, set())
        listed = {(entry.split, entry.path) for entry in manifest.files.get(name, ())}
        extra, missing = sorted(files - listed), sorted(listed - files)
        if extra:
            yield f"config {name!r} names {extra[0][1]}, which the manifest does not"
        elif missing:
            yield f"config {name!r} leaves out {missing[0][1]}, which the manifest names"


def card_configs(card: Path) -> dict[str, set[tuple[str, str]]] | None:
    """The files, as (split, path), of each config that a card describes; None when it cannot be read."""
    import yaml

    try:
        # The parser in C is ten times as fast; some builds of the package lack it.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        front = yaml.load(card.read_text(encoding="utf-8").split("---\n")[1], Loader=loader)
        return {
            str(config["config_name"]): {
                (str(files["split"]), str(path)) for files in config["data_files"] for path in files["path"]
            }
            for config in front["configs"]
        }
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
