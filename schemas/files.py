"""The published JSON Schema files: one folder per version, kept for ever."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kbench.schemas.errors import UnknownNameError
from kbench.schemas.record import Record, json_schema

FOLDER = Path(__file__).parent / "json"


def schema_path(record: type[Record]) -> Path:
    """Where a record type's schema is published."""
    return FOLDER / record.VERSION / f"{record.TYPE}.json"


def versions() -> tuple[str, ...]:
    """Every published version, oldest first."""
    found = [path.name for path in FOLDER.iterdir() if path.is_dir()]
    return tuple(sorted(found, key=lambda name: tuple(map(int, name.split(".")))))


def published_schema(kind: str, version: str) -> dict[str, Any]:
    """A published schema.

    Raises:
        UnknownNameError: no such version, or no such record type in it.
    """
    if version not in versions():
        raise UnknownNameError("schema version", version, versions())
    path = FOLDER / version / f"{kind}.json"
    if not path.exists():
        raise UnknownNameError("record type", kind, [item.stem for item in (FOLDER / version).glob("*.json")])
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def schema_text(record: type[Record]) -> str:
    """The text of a record type's schema file."""
    return json.dumps(json_schema(record), indent=1, ensure_ascii=False) + "\n"


def publish(record: type[Record]) -> Path:
    """Write a record type's schema file; a published version never changes, a new one gets a new folder."""
    path = schema_path(record)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(schema_text(record), encoding="utf-8")
    return path
