"""The dataset card: YAML that `datasets` and the Hub read, then prose and counts, all from the data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from kbench.loaders.configs import CONFIGS, DEFAULT
from kbench.loaders.manifest import Manifest
from kbench.schemas import arrow_schema


def render_card(folder: Path, manifest: Manifest) -> str:
    """The card of a corpus whose files lie in `folder`."""
    return "---\n" + "\n".join(_yaml(front_matter(manifest))) + "\n---\n\n# kbench\n"


def front_matter(manifest: Manifest) -> dict[str, Any]:
    """What the Hub and `datasets` read."""
    versions = manifest.versions()
    configs = []
    for name, entries in manifest.files.items():
        splits = [split for split in CONFIGS[name].splits if any(entry.split == split for entry in entries)]
        files = [{"split": split, "path": [e.path for e in entries if e.split == split]} for split in splits]
        default = {"default": True} if name == DEFAULT else {}
        configs.append({"config_name": name, **default, "version": versions[name], "data_files": files})
    infos = [{"config_name": name, "features": features(arrow_schema(CONFIGS[name].record))} for name in manifest.files]
    return {
        "license": "cc-by-4.0",
        "pretty_name": "kbench",
        "tags": ["gpu", "cuda", "triton", "kernel", "benchmark", "performance"],
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


def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Block YAML; text is quoted as JSON, which YAML reads the same."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, Mapping | list) and item:
                yield f"{indent}{key}:"
                yield from _yaml(item, indent + ("  " if isinstance(item, Mapping) else ""))
            else:
                yield f"{indent}{key}: {json.dumps(item, ensure_ascii=False)}"
        return
    for item in value:
        if isinstance(item, Mapping):
            first, *rest = _yaml(item, indent + "  ")
            yield f"{indent}- {first[len(indent) + 2 :]}"
            yield from rest
        else:
            yield f"{indent}- {json.dumps(item, ensure_ascii=False)}"
