"""Upload of finished shards by workers, directly to their final location in an object store.

Files are created under the final prefix of the artifact and never overwritten. An upload record
follows, stored next to the artifacts, so that a later run does not build the shard again. Until the
manifest is published, the artifact is not visible.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gsx import typed_values
from gsx.storage.artifacts.digest import readable_json, sha256_bytes, sha256_stream
from gsx.storage.artifacts.draft import Draft, Unit
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.publish_remote import create_file, read_verified, require_same_content

MAX_RECORD_BYTES = 1 << 26


class UploadRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A shard that was uploaded completely."""

    source: str
    """Hash of the code that built it."""
    units: tuple[Unit, ...]
    stats: dict[str, Any] = msgspec.field(name="facts")
    """Shard statistics."""


def upload_records(store: Location, key: str) -> Location:
    """Return the location of the upload records of an unfinished artifact."""
    return store.child(f".drafts/{key[:32]}")


def upload_shard(
    draft: Draft,
    names: Sequence[str],
    target: Location,
    records: Location,
    stats: Mapping[str, Any],
    source: str,
) -> UploadRecord:
    """Upload finished units of ``draft`` to ``target``, then write their record."""
    record = UploadRecord(source=source, units=tuple(draft.find_units(names)), stats=dict(stats))
    with translate_remote_errors(target):
        for unit in record.units:
            for path, entry in unit.files.items():
                data = read_verified(Location.at(draft.content), path, entry)
                if not create_file(target, path, data):
                    require_same_content(target, path, entry.sha256)
        records.fs.pipe_file(records.path(_record_name(names)), readable_json(record))
    return record


def find_uploaded_shard(
    names: Sequence[str], target: Location, records: Location, source: str
) -> UploadRecord | None:
    """Return the record of the units ``names`` if the same code uploaded them.

    Return None if the record is missing or any file is missing or differs.
    """
    try:
        data = records.read_bytes(_record_name(names), limit=MAX_RECORD_BYTES)
        record = typed_values.decode_json(data, UploadRecord)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    matches = record.source == source and tuple(unit.name for unit in record.units) == tuple(names)
    files = [item for unit in record.units for item in unit.files.items()]
    intact = matches and all(_has_content(target, path, entry.sha256) for path, entry in files)
    return record if intact else None


def remove_upload_records(records: Location) -> None:
    """Remove the upload records of a published artifact; concurrent removal is allowed."""
    with translate_remote_errors(records), contextlib.suppress(FileNotFoundError):
        records.fs.invalidate_cache()
        records.fs.rm(records.root, recursive=True)


def _record_name(names: Sequence[str]) -> str:
    return f"{sha256_bytes(names[0].encode())[:32]}.json"


def _has_content(target: Location, path: str, sha256: str) -> bool:
    try:
        with translate_remote_errors(target), target.open(path) as stream:
            return sha256_stream(stream)[1] == sha256
    except FileNotFoundError:
        return False
