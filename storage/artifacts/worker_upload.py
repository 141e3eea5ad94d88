"""Shipping: a worker puts a finished shard into an object store at once, where it will stay.

Files go under the final prefix of the artifact, created and never overwritten; after them comes a
record beside the artifacts, so that another run need not make the shard again. Without a manifest
none of it is visible.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gsx.storage.artifacts.digest import readable_json, sha256_bytes, sha256_stream
from gsx.storage.artifacts.draft import Draft, Unit
from gsx.storage.artifacts.location import Place, reachable
from gsx.storage.artifacts.publish_remote import put_new, require_same

LIMIT = 1 << 26
"""Bytes of a record that are read."""


class Shipment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A shard that lies in the store, whole."""

    source: str
    """Hash of the code that made it."""
    units: tuple[Unit, ...]
    facts: dict[str, Any]


def records_of(store: Place, key: str) -> Place:
    """Return where the records of an artifact lie while it grows."""
    return store.child(f".drafts/{key[:32]}")


def ship(
    draft: Draft,
    names: Sequence[str],
    target: Place,
    records: Place,
    facts: Mapping[str, Any],
    source: str,
) -> Shipment:
    """Put finished units of ``draft`` at ``target``, then their record."""
    shipment = Shipment(source=source, units=tuple(draft.named(names)), facts=dict(facts))
    with reachable(target):
        for unit in shipment.units:
            for path, entry in unit.files.items():
                if not put_new(target, path, draft.content / path):
                    require_same(target, path, entry.sha256)
        records.fs.pipe_file(records.path(_record(names)), readable_json(shipment))
    return shipment


def shipped(names: Sequence[str], target: Place, records: Place, source: str) -> Shipment | None:
    """Return the shard of ``names`` if this code shipped it and every byte is still there."""
    try:
        data = records.read_bytes(_record(names), limit=LIMIT)
        shipment = msgspec.json.decode(data, type=Shipment)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    sound = shipment.source == source and tuple(unit.name for unit in shipment.units) == tuple(
        names
    )
    files = [item for unit in shipment.units for item in unit.files.items()]
    return shipment if sound and all(_there(target, path, e.sha256) for path, e in files) else None


def forget_records(records: Place) -> None:
    """Remove the records of an artifact that was published; another publisher may do so too."""
    with reachable(records), contextlib.suppress(FileNotFoundError):
        records.fs.invalidate_cache()
        records.fs.rm(records.root, recursive=True)


def _record(names: Sequence[str]) -> str:
    return f"{sha256_bytes(names[0].encode())[:32]}.json"


def _there(target: Place, path: str, sha256: str) -> bool:
    try:
        with reachable(target), target.open(path) as stream:
            return sha256_stream(stream)[1] == sha256
    except FileNotFoundError:
        return False
