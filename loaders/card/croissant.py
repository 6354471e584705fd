"""Croissant 1.1 metadata with the responsible-AI vocabulary, generated from the data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from kbench.loaders.card.provenance import EXECUTION, citation_of, provenance_of, sheet_of
from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.fingerprint import corpus_fingerprint, dataset_version
from kbench.loaders.summary.coverage import Counts, count
from kbench.schemas import Kernel, arrow_schema
from kbench.schemas.record import field_docs

CONFORMS_TO = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")
CONTEXT: dict[str, Any] = json.loads(Path(__file__).with_name("croissant_context.json").read_text(encoding="utf-8"))
"""What the words of Croissant stand for."""
CONTROL = re.compile(r"\\u00[01][0-9a-f]|\\[bf]")
"""Control characters as JSON spells them; none is part of a description."""
_TYPES = {"string": "sc:Text", "int64": "sc:Integer", "double": "sc:Float", "bool": "sc:Boolean"}


def render_croissant(corpus: Corpus) -> str:
    """The metadata of a corpus, as croissant.json."""
    return CONTROL.sub("", json.dumps(croissant(corpus), indent=1, ensure_ascii=False)) + "\n"


def croissant(corpus: Corpus) -> dict[str, Any]:
    """The metadata of a corpus."""
    provenance = provenance_of(corpus)
    counts, sheet, citation = count(corpus), sheet_of(provenance), citation_of(corpus, provenance)
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": list(CONFORMS_TO),
        "name": sheet.name,
        "description": sheet.summary,
        "license": sheet.license_url,
        **({"citeAs": citation} if citation else {}),
        "creator": {"@type": "sc:Organization", "name": sheet.creator},
        "keywords": ["GPU", "CUDA", "Triton", "kernel", "benchmark", "runtime", "forecasting"],
        "isLiveDataset": False,
        "version": corpus.manifest.release
        or dataset_version(corpus_fingerprint(corpus.manifest.config_hashes), Kernel.VERSION),
        **({"datePublished": counts.last_measured[:10]} if counts.last_measured else {}),
        **responsible(counts, sheet),
        "distribution": [part for name in corpus.configs for part in _distribution(corpus, name)],
        "recordSet": [_record_set(name) for name in corpus.configs],
    }


def responsible(counts: Counts, sheet: SimpleNamespace) -> dict[str, Any]:
    """The responsible-AI and provenance statements."""
    span = [date for date in (counts.first_measured, counts.last_measured) if date]
    origins = ", ".join(counts.facets["origin"]) or "none"
    return {
        "rai:dataCollection": sheet.collection,
        "rai:dataCollectionType": ["Experiments", "Software Collection"],
        "rai:dataCollectionMissingData": sheet.missing,
        **({"rai:dataCollectionTimeFrame": span} if span else {}),
        "rai:dataPreprocessingProtocol": [sheet.preprocessing],
        "rai:dataUseCases": [sheet.use_cases],
        "rai:dataBiases": [sheet.biases],
        "rai:dataLimitations": [sheet.limitations, EXECUTION],
        "rai:dataSocialImpact": sheet.social_impact,
        "rai:personalSensitiveInformation": [sheet.personal],
        "rai:dataReleaseMaintenancePlan": sheet.maintenance,
        **({"rai:hasSyntheticData": True} if sheet.generated_by is None else {}),
        "prov:wasDerivedFrom": f"Rows by origin: {origins}.",
        "prov:wasGeneratedBy": sheet.generated_by
        or (
            f"Searches ({', '.join(counts.facets['search_method']) or 'none'}) with proposers "
            f"({', '.join(counts.facets['proposer']) or 'none'}); timings by the kbench harness."
        ),
    }


def _distribution(corpus: Corpus, name: str) -> Iterator[dict[str, Any]]:
    parquet = {"encodingFormat": "application/x-parquet"}
    for entry in corpus.files(name):
        place = dict.fromkeys(("@id", "name", "contentUrl"), entry.path)
        size = {"contentSize": f"{entry.bytes} B", **parquet, "sha256": entry.sha256}
        yield {"@type": "cr:FileObject", **place, **size}
    about = {"description": f"Parquet files of the config {name}.", **parquet, "includes": f"{name}/*.parquet"}
    yield {"@type": "cr:FileSet", "@id": f"{name}-files", "name": f"{name}-files", **about}


def _record_set(name: str) -> dict[str, Any]:
    config = CONFIGS[name]
    docs = field_docs(config.record)
    plain = [field for field in arrow_schema(config.record) if not _holds_records(field.type)]
    nested = [field.name for field in arrow_schema(config.record) if _holds_records(field.type)]
    remark = f" The columns {' and '.join(nested)} hold nested records and are described in the card." if nested else ""
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"One row is {config.row}.{remark}",
        "key": [{"@id": f"{name}/{column}"} for column in config.key],
        "field": [_field(name, field, docs[field.name]) for field in plain],
    }


def _holds_records(kind: pa.DataType) -> bool:
    return isinstance(kind.value_type if pa.types.is_list(kind) else kind, pa.StructType)


def _field(name: str, field: pa.Field, description: str) -> dict[str, Any]:
    kind = field.type
    is_list = pa.types.is_list(kind)
    item = kind.value_type if is_list else kind
    shape = {"isArray": True, "arrayShape": "-1"} if is_list else {}
    return {
        "@type": "cr:Field",
        "@id": f"{name}/{field.name}",
        "name": field.name,
        "description": description,
        "dataType": _TYPES[str(item)],
        **shape,
        "source": {"fileSet": {"@id": f"{name}-files"}, "extract": {"column": field.name}},
    }
