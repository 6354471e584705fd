"""Private labels: queries travel to submitters without answers, and answers stay with the maintainer in one file."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.questions.questions import PairLabels, PoolLabels, Questions, strings
from kbench.loaders.corpus.corpus import EVERY_GPU
from kbench.loaders.storage.atomic import parquet_bytes, replace_together, write_atomically
from kbench.schemas import Backend, DataError, PairKind, Query, arrow_schema, to_dict

if TYPE_CHECKING:
    import pyarrow as pa

KEY = b"kbench.questions"
SET_FACTS = ("dataset", "split", "subset", "shots")
"""What tells one set of queries from another, with the GPU."""


WITHHELD = Query(
    query_id="0" * 32, problem_id="withheld", family="withheld", problem_text="", workloads_json="[]",
    backend=Backend.TRITON, kind=PairKind.REFERENCE, anchor_source="", candidate_source="", gpu="", gpu_facts_json="{}",
)  # fmt: skip
"""Stands for a query whose text is not with its label."""


def write_queries(questions: Questions, folder: Path) -> list[Path]:
    """Everything a submitter may see: one Parquet file per track, because what another track asks may tell."""
    import pyarrow as pa

    written: dict[str, bytes] = {}
    gpu = gpu_of(questions)
    for track, queries in queries_by_track(questions).items():
        facts = {"track": track} | {name: getattr(questions, name) for name in SET_FACTS} | {"gpu": gpu}
        table = pa.Table.from_pylist([to_dict(query) for query in queries], schema=arrow_schema(Query))
        written[f"{track}.parquet"] = parquet_bytes(table.replace_schema_metadata({KEY: json.dumps(facts)}))
    replace_together(folder, written)
    return [folder / name for name in written]


def queries_by_track(questions: Questions) -> dict[str, list[Query]]:
    """Each track's queries, in the order of its file."""
    return {track: [questions.queries[at] for at in questions.asked(track).tolist()] for track in questions.tracks}


def gpu_of(questions: Questions) -> str:
    """The GPU that queries are about, as --gpu takes it."""
    gpus = {query.gpu for query in questions.queries}
    return gpus.pop() if len(gpus) == 1 else EVERY_GPU


def write_labels(questions: Questions, path: Path) -> None:
    """Everything a submitter may not see, into a file: enough to score forecasts without the corpus."""
    import pyarrow as pa

    facts = {name: getattr(questions, name) for name in (*SET_FACTS, "gpu", "tracks", "measure_seconds")} | {
        "pair_queries": questions.pair_queries.tolist(),
        "prior": questions.prior.tolist(),
        "kind_priors": {kind: prior.tolist() for kind, prior in questions.kind_priors.items()},
        "queries": [[query.query_id, query.gpu] for query in questions.queries],
    }
    tables = []
    for name, labels in (("pair", questions.pairs), ("pool", questions.pools)):
        columns = {field.name: getattr(labels, field.name) for field in dataclasses.fields(labels)}
        tables.append(pa.table({"labels": [name] * len(labels), **columns}))
    table = pa.concat_tables(tables, promote_options="default")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, parquet_bytes(table.replace_schema_metadata({KEY: json.dumps(facts)})))


def read_labels(path: Path) -> Questions:
    """The questions a labels file answers; the queries' texts are not in it and stay empty.

    Raises:
        DataError: the file is not one that `export-queries --labels` wrote.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        facts = json.loads((table.schema.metadata or {})[KEY])
        kinds = np.asarray(table.column("labels").to_pylist(), dtype=object)
        return Questions(
            dataset=facts["dataset"],
            split=facts["split"],
            shots=facts.get("shots", 0),
            subset=facts["subset"],
            gpu=facts.get("gpu"),
            tracks=tuple(facts["tracks"]),
            pair_queries=np.asarray(facts["pair_queries"], dtype=np.int64),
            prior=np.asarray(facts["prior"], dtype=np.float64),
            kind_priors={kind: np.asarray(prior, dtype=np.float64) for kind, prior in facts["kind_priors"].items()},
            measure_seconds=facts["measure_seconds"],
            queries=tuple(dataclasses.replace(WITHHELD, query_id=key, gpu=gpu) for key, gpu in facts["queries"]),
            pairs=PairLabels(**_fields(table, kinds == "pair", PairLabels)),
            pools=PoolLabels(**_fields(table, kinds == "pool", PoolLabels)),
        )
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path} is not a labels file ({type(error).__name__}: {error}); export it again") from None


def _fields(table: pa.Table, rows: Any, kind: type[PairLabels] | type[PoolLabels]) -> dict[str, Any]:
    import pyarrow as pa

    part = table.filter(pa.array(rows.astype(bool)))
    columns = {field.name: part.column(field.name) for field in dataclasses.fields(kind)}
    return {
        name: strings(column.to_pylist()) if pa.types.is_string(column.type) else column.to_numpy()
        for name, column in columns.items()
    }
