"""The dataset card and the files beside it, all from the data: YAML that `datasets` and the Hub read, prose and counts.

The page itself is `card.md.j2`, and `findings.md.j2` for a corpus that kbench measured.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import yaml

from kbench.loaders.card.croissant import render_croissant
from kbench.loaders.card.findings import findings_of
from kbench.loaders.card.plots import BINS, CAPTIONS
from kbench.loaders.card.provenance import EXECUTION, Provenance, citation_of, provenance_of, sheet_of
from kbench.loaders.corpus.configs import CONFIGS, DEFAULT, SPLITS
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.manifest import CARD, CROISSANT, EVAL, LEDGER, PLOTS
from kbench.loaders.summary.coverage import UNMEASURED, Counts, count
from kbench.schemas import QuestionKind, Status, arrow_schema
from kbench.schemas.bins import LABELS, NUMBERS
from kbench.schemas.gpus import partition_size, whole_gpu
from kbench.schemas.record import field_docs

if TYPE_CHECKING:
    from jinja2 import Environment

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""What no card may hold, whatever the rows do: a terminal would obey it."""
SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)


def render_card(corpus: Corpus, findings: SimpleNamespace | None = None) -> str:
    """The card of a corpus."""
    counts, provenance = count(corpus), provenance_of(corpus)
    main = corpus.main_gpu() if provenance.ours else None  # of imported kernels every GPU is asked about
    front = yaml.safe_dump(front_matter(corpus, counts, provenance), sort_keys=False, allow_unicode=True, width=1000)
    if findings is None and provenance.ours:
        findings = findings_of(corpus)
    # How many questions are about kernels of each class of author.
    authors = Counter(sorted(corpus.table("questions", columns=["author"]).column("author").to_pylist()))
    page = _environment().get_template("card.md.j2").render(
        corpus=corpus, configs=CONFIGS, versions=corpus.manifest.versions(), counts=counts, provenance=provenance,
        sheet=sheet_of(provenance), execution=EXECUTION, findings=findings, machines=_machines(corpus),
        columns=partial(_columns, NOTES if provenance.ours else {}),
        row_each="a kernel has one for each GPU it was measured on", bins=list(zip(NUMBERS, LABELS, strict=True)),
        captions=CAPTIONS, bins_plot=BINS, plots_folder=PLOTS, ledger_file=LEDGER,
        example=_example(corpus), questions=_questions(corpus, main), main_gpu=main,
        authors=", ".join(f"{name} {number:,}" for name, number in sorted(authors.items(), key=lambda one: -one[1])),
        facet_titles={"gpu": "GPU", "search_method": "search method"}, gpus=gpus_in_words(counts.facets["gpu"]),
        citation=citation_of(corpus, provenance),
    )  # fmt: skip
    # Sections that a corpus has nothing for leave their blank lines.
    page = re.sub(r"\n{3,}", "\n\n", page).strip()
    return CONTROL.sub("", f"---\n{front}---\n\n{page}\n")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Markdown, not HTML: rows are escaped by `cell`.
    made = Environment(
        loader=PackageLoader("kbench.loaders.card", "."), undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    made.filters |= {
        "cell": lambda text: str(text).replace("|", "\\|"),
        "commas": lambda number: f"{number:,}",
        "bound": lambda value: f"{value:,.0f}" if value >= 1 else f"{value:g}",
    }
    return made


WHOLE_GPU = ""


def gpus_in_words(names: Iterable[str]) -> str:
    """GPUs by model, so that partitions of one are not taken for further ones; empty where none was measured on."""
    models: dict[str, list[str]] = {}
    for name in sorted(set(names) - {UNMEASURED}):
        size = partition_size(name)
        models.setdefault(whole_gpu(name), []).append(f"{size[0]} of {size[1]}" if size else WHOLE_GPU)
    texts = []
    for model, parts in models.items():
        partitions = [part for part in parts if part != WHOLE_GPU]
        if partitions:
            whole = "whole and in" if WHOLE_GPU in parts else "in"
            model += f", {whole} partitions: {' and '.join(partitions)} multiprocessors"
        texts.append(model)
    return f"{'one GPU' if len(texts) == 1 else f'{len(texts)} GPUs'} ({'; '.join(texts)})" if texts else ""


def front_matter(corpus: Corpus, counts: Counts, provenance: Provenance | None = None) -> dict[str, Any]:
    """What the Hub and `datasets` read."""
    provenance = provenance or provenance_of(corpus)
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
        "license": provenance.licence_word,
        "pretty_name": sheet_of(provenance).title,
        "language": ["code"],
        "task_categories": ["text-classification", "text-generation"],
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


def _machines(corpus: Corpus) -> dict[str, Any]:
    """On what the figures were measured; a limit when it is one GPU."""
    if not corpus.rows("environments"):
        return {}
    rows = corpus.table("environments", columns=["gpu", "driver", "torch", "triton", "nvrtc"]).to_pylist()
    software = {
        f"driver {row['driver']}, PyTorch {row['torch']}, Triton {row['triton']}, NVRTC {row['nvrtc']}" for row in rows
    }
    return {"gpus": gpus_in_words(row["gpu"] for row in rows), "software": sorted(software)}


EXAMPLE = (
    "kernel_id", "problem_id", "backend", "gpu", "search_method", "proposer", "parent_id", "split", "source", "status",
    "runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "registers", "shared_bytes",
)  # fmt: skip
"""Columns of the row that the card shows."""
SHOWN_CHARACTERS = 72


def _example(corpus: Corpus) -> list[tuple[str, str]]:
    """One correct kernel, column by column; long texts are cut."""
    rows = (row for part in corpus.batches(DEFAULT, columns=list(EXAMPLE)) for row in part.to_pylist())
    row = next((row for row in rows if row["status"] == Status.OK), None)
    if row is None:
        return []
    texts = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in row.items()}
    shown = {name: " ".join(text.split()) for name, text in texts.items() if row[name] is not None}
    return [
        (name, f"`{text[:SHOWN_CHARACTERS]}`" + (" …" if len(text) > SHOWN_CHARACTERS else ""))
        for name, text in shown.items()
    ]


def _questions(corpus: Corpus, main: str | None) -> list[list[str]]:
    """Of each split: its problems, its questions by kind, and those on the GPU that is asked about by default."""
    if not corpus.rows("questions"):
        return []
    columns = ["split", "problem_id", "kind", "workload", "core", "gpu"]
    rows = corpus.table("questions", columns=columns).to_pylist()
    lines = []
    for split in (name for name in SPLITS if any(row["split"] == name for row in rows)):
        asked = [row for row in rows if row["split"] == split]
        whole = [row["kind"] for row in asked if row["workload"] is None]
        numbers = [
            len({row["problem_id"] for row in asked}),
            *(whole.count(kind) for kind in (QuestionKind.PAIR, QuestionKind.EDIT, QuestionKind.LEVEL)),
            len(asked) - len(whole),
            len(asked),
            sum(row["core"] for row in asked),
            *([sum(row["gpu"] == main for row in asked)] if main else []),
            *([sum(row["core"] and row["gpu"] == main for row in asked)] if main else []),
        ]
        lines.append([f"`{split}`", *(f"{number:,}" for number in numbers)])
    return lines


_BETWEEN_MACHINES = "It allows 0.6 % between machines as well."
_WITHIN_RUN = "It is of one run: about 85 % of repeats on another day or machine agree (Trust, below)."
_OF_TIMES = {"runtime_low_us": _WITHIN_RUN, "speedup_low": _WITHIN_RUN}
NOTES: Mapping[str, Mapping[str, str]] = {
    "kernels": {
        "parent_id": "Of a cross the first of two; the second is `other_id` of its `candidate_proposed` event.",
        "edit": "A language model's words end after 300 characters, without a mark.",
        "runtime_low_us": _BETWEEN_MACHINES,
        "speedup": "It holds the reference's noise too: compare two kernels by `runtime_us`.",
        "speedup_low": _BETWEEN_MACHINES,
    },
    "measurements": _OF_TIMES,
    "repeats": _OF_TIMES,
}
"""What is true of columns in what kbench measured, and not of every corpus."""


def _columns(notes: Mapping[str, Mapping[str, str]], name: str) -> Iterator[tuple[str, str, str]]:
    """Name, type and meaning of each column of a config."""
    record = CONFIGS[name].record
    docs, own = field_docs(record), notes.get(name, {})
    for field in arrow_schema(record):
        kind = str(field.type)
        brief = "list<struct>" if pa.types.is_list(field.type) else "struct"
        meaning = f"{docs[field.name]} {own.get(field.name, '')}".strip()
        yield field.name, kind if len(kind) < 40 else brief, meaning


TASKS = ("forecast", "edit", "rank", "select")
EVAL_FACTS: Mapping[str, Any] = {
    "name": "kbench",
    "description": "How fast will this GPU kernel run, and how sure are you?",
    "tasks": [{"id": task, "config": "questions", "split": "test"} for task in TASKS],
}
"""What the Hub reads to show a dataset as a benchmark. It names no evaluation framework: the Hub knows a closed list of
them, and refuses a file with another."""


def describe(corpus: Corpus, folder: Path) -> dict[str, bytes | None]:
    """What describes a corpus: content by path in its folder, None for what an earlier description left there.

    The order is the one to write in: the card follows the plots it shows, and what goes is gone after it.
    """
    # Findings are about what kbench measured; of other people's figures it has nothing to explain.
    findings = findings_of(corpus) if provenance_of(corpus).ours else None
    files = {f"{PLOTS}/{name}": text for name, text in findings.plots.items()} if findings else {}
    if findings and findings.costs:
        files[LEDGER] = json.dumps(findings.costs, indent=1) + "\n"
    if any(entry.split == "test" for entry in corpus.files("questions")):
        files[EVAL] = yaml.safe_dump(EVAL_FACTS, sort_keys=False, allow_unicode=True)
    files |= {CROISSANT: render_croissant(corpus), CARD: render_card(corpus, findings)}
    made: dict[str, bytes | None] = {name: text.encode() for name, text in files.items()}
    left = [folder / LEDGER, folder / EVAL, *sorted((folder / PLOTS).glob("*.svg"))]
    return made | {name: None for path in left if (name := path.relative_to(folder).as_posix()) not in made}
