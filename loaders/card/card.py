"""The dataset card: YAML that `datasets` and the Hub read, then prose and counts, all from the data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import yaml

from kbench.loaders.card import datasheet
from kbench.loaders.card.findings import Findings, findings_of
from kbench.loaders.card.provenance import NOT_STATED, Provenance, provenance_of, sheet_of
from kbench.loaders.card.sections import findings_sections
from kbench.loaders.card.sections import markdown_table as _table
from kbench.loaders.corpus.configs import CONFIGS, DEFAULT
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.splits.problems import SEEN_SHARE, TEST_SHARE, VALIDATION_SHARE
from kbench.loaders.summary.counts import Counts, count
from kbench.schemas import arrow_schema
from kbench.schemas.bins import LABELS, NUMBERS
from kbench.schemas.record import field_docs

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What no card may hold, whatever the rows do: a terminal would obey it."""
SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)


def render_card(corpus: Corpus, found: Findings | None = None) -> str:
    """The card of a corpus.

    Args:
        corpus: the corpus.
        found: its findings, where they are known already.
    """
    counts, whose = count(corpus), provenance_of(corpus)
    front = yaml.safe_dump(front_matter(corpus, counts, whose), sort_keys=False, allow_unicode=True, width=1000)
    if found is None and whose.ours:
        found = findings_of(corpus)
    sections = _sections(corpus, counts, whose, found)
    return CONTROL.sub("", f"---\n{front}---\n\n" + "\n\n".join(sections) + "\n")


def front_matter(corpus: Corpus, counts: Counts, whose: Provenance | None = None) -> dict[str, Any]:
    """What the Hub and `datasets` read."""
    whose = whose or provenance_of(corpus)
    versions = corpus.manifest.versions()
    configs = []
    for name in corpus.configs:
        entries = corpus.files(name)
        splits = [split for split in CONFIGS[name].splits if any(entry.split == split for entry in entries)]
        # Files by name, not by pattern: a pattern would take in the shards of a writer that was killed.
        files = [{"split": split, "path": [e.path for e in entries if e.split == split]} for split in splits]
        default = {"default": True} if name == DEFAULT else {}
        configs.append({"config_name": name, **default, "version": versions[name], "data_files": files})
    infos = [{"config_name": name, "features": features(arrow_schema(CONFIGS[name].record))} for name in corpus.configs]
    kernels = counts.rows.get(DEFAULT, 0)
    return {
        "license": whose.licence_word,
        "pretty_name": sheet_of(whose).title,
        "language": ["code"],
        "tags": ["gpu", "cuda", "triton", "kernel", "benchmark", "performance", "croissant"],
        "size_categories": [next((label for bound, label in SIZES if kernels < bound), "n>10M")],
        "configs": configs,
        "dataset_info": infos,
    }


def features(schema: pa.Schema) -> list[dict[str, Any]]:
    """Columns in the words of the card's `features`."""
    return [{"name": field.name, **_feature(field.type)} for field in schema]


def _feature(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(kind):
        item = _feature(kind.value_type)
        return {"list": item.get("dtype") or item["struct"]}
    if pa.types.is_struct(kind):
        return {"struct": features(pa.schema(list(kind)))}
    return {"dtype": {"double": "float64"}.get(str(kind), str(kind))}


def _sections(corpus: Corpus, counts: Counts, whose: Provenance, found: Findings | None) -> Iterator[str]:
    sheet = sheet_of(whose)
    yield f"# {sheet.title}\n\n{sheet.summary}"
    yield f"Fingerprint: `{corpus.fingerprint}`. This page is generated from the data."
    yield "## Configs\n\n" + _table(
        ("config", "one row is", "rows", "version"),
        [(f"`{n}`", CONFIGS[n].row, f"{counts.rows[n]:,}", corpus.manifest.versions()[n]) for n in corpus.configs],
    )
    yield "## Load it\n\n" + LOADING
    yield "## Counts\n\n" + _counted(counts)
    for title, values in (
        ("split", counts.splits), ("backend", counts.backends), ("GPU", counts.gpus), ("status", counts.statuses),
        ("search method", counts.search_methods), ("proposer", counts.proposers), ("family", counts.families),
        ("origin", counts.origins),
    ):  # fmt: skip
        if values:
            # On one GPU a kernel has one row.
            counted = "rows" if counts.repeated and title != "GPU" else "kernels"
            yield _table((title, counted), [(key, f"{number:,}") for key, number in values.items()])
    if found is not None:
        yield from findings_sections(found)
    yield f"## Splits\n\n{sheet.preprocessing}{_shares() if whose.ours else ''}"
    yield "## Speedup bins\n\n" + _table(
        ("bin", "S = anchor time / candidate time"),
        [(str(number), label) for number, label in zip(NUMBERS, LABELS, strict=True)],
    )
    yield f"## How it was made\n\n{sheet.collection}\n\n{sheet.missing}\n\n{sheet.precision}"
    yield f"## Limits and biases\n\n{_machines(corpus)}{sheet.limitations}\n\n{sheet.biases}"
    yield f"## Datasheet\n\n{_datasheet(counts, sheet)}"
    yield f"## Licence\n\n{whose.licence_text()}"
    if not whose.ours:
        yield _table(
            ("origin", "licence", "kernels"),
            [(origin, licence or NOT_STATED, f"{number:,}") for (origin, licence), number in whose.groups.items()],
        )
    yield "## Citation\n\n" + (
        f"```bibtex\n{sheet.citation}\n```" if sheet.citation else "Cite the origins of the rows."
    )
    yield "## Columns"
    for name in corpus.configs:
        yield f"### {name}\n\n" + _columns(name)


LOADING = """```python
from datasets import load_dataset

kernels = load_dataset("<path or hub id>", "kernels", split="train")
```

```python
import kbench

table = kbench.load("<path or hub id>", backend="triton", status="ok", columns=["kernel_id", "runtime_us"]).to_arrow()
```"""


ROW_EACH = "a kernel has one for each GPU it was measured on"


def _counted(counts: Counts) -> str:
    measured = ""
    if counts.first_measured and counts.last_measured:
        measured = f", measured from {counts.first_measured[:10]} to {counts.last_measured[:10]}"
    covered = f"{counts.problems_with_kernels:,} of {counts.problems:,} problems"
    rows = f" {counts.rows[DEFAULT]:,} rows: {ROW_EACH}." if counts.repeated else ""
    return f"{counts.distinct_kernels:,} distinct kernels for {covered}{measured}.{rows}"


def _machines(corpus: Corpus) -> str:
    """On what the figures were measured; a limit when it is one GPU."""
    if not corpus.rows("environments"):
        return ""
    columns = ["gpu", "driver", "torch", "triton", "nvrtc"]
    rows = corpus.table("environments", columns=columns).to_pylist()
    gpus = sorted({row["gpu"] for row in rows})
    software = sorted(
        {
            f"driver {row['driver']}, PyTorch {row['torch']}, Triton {row['triton']}, NVRTC {row['nvrtc']}"
            for row in rows
        }
    )
    kinds = "One kind of GPU" if len(gpus) == 1 else f"{len(gpus)} kinds of GPU"
    return f"{kinds}: {', '.join(gpus)}; {'; '.join(software)}.\n\n"


def _datasheet(counts: Counts, sheet: datasheet.Sheet) -> str:
    """The questions of a datasheet, each with its answer."""
    rows = f" in {counts.rows[DEFAULT]:,} rows ({ROW_EACH})" if counts.repeated else ""
    composition = (
        f"{counts.distinct_kernels:,} kernels{rows}, {counts.rows.get('measurements', 0):,} measurements, "
        f"{counts.rows.get('pairs', 0):,} pairs and {counts.problems:,} problems; {sheet.composition}"
    )
    answers = (
        ("Motivation", sheet.motivation),
        ("Composition", f"{composition} {sheet.personal}"),
        ("Collection", sheet.collection),
        ("Preprocessing", f"{sheet.preprocessing} {sheet.missing}"),
        ("Uses", f"{sheet.use_cases} {datasheet.EXECUTION} {sheet.social_impact}"),
        ("Distribution", sheet.distribution),
        ("Maintenance", sheet.maintenance),
    )
    return "\n\n".join(f"**{question}.** {answer}" for question, answer in answers)


def _shares() -> str:
    return (
        f" About {TEST_SHARE:.0%} of problems are test, {VALIDATION_SHARE:.0%} validation; about {SEEN_SHARE:.0%} of "
        "the kernels of training problems are test_seen. Problems that share a near-duplicate stay on one side."
    )


def _columns(name: str) -> str:
    record = CONFIGS[name].record
    kinds = {field.name: str(field.type) for field in arrow_schema(record)}
    docs = field_docs(record)
    rows = [(f"`{key}`", kind if len(kind) < 40 else "struct", docs[key]) for key, kind in kinds.items()]
    return _table(("column", "type", "meaning"), rows)
