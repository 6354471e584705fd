"""The published JSON Schemas: one file per version, kept for ever, with the record types that got that version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kbench.schemas.errors import UnknownNameError
from kbench.schemas.record import Record, json_schema

FOLDER = Path(__file__).parent / "json"


def versions() -> tuple[str, ...]:
    """Every published version, oldest first."""
    names = [path.stem for path in FOLDER.glob("*.json")]
    return tuple(sorted(names, key=lambda name: tuple(map(int, name.split(".")))))


def published_schema(kind: str, version: str) -> dict[str, Any]:
    """A published schema.

    Raises:
        UnknownNameError: no such version, or no such record type in it.
    """
    if version not in versions():
        raise UnknownNameError("schema version", version, versions())
    schemas: dict[str, dict[str, Any]] = json.loads((FOLDER / f"{version}.json").read_text(encoding="utf-8"))
    if kind not in schemas:
        raise UnknownNameError("record type", kind, list(schemas))
    return schemas[kind]


def publish(record: type[Record]) -> Path:
    """Add a record type's schema to the file of its version; what a version has published never changes."""
    path = FOLDER / f"{record.VERSION}.json"
    schemas = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    schemas[record.TYPE] = json_schema(record)
    text = json.dumps(dict(sorted(schemas.items())), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path
