"""Origins: where artifacts of a store come from that were not built in it.

A store trusts what was built in it. `gsx pull` therefore records the origin of an artifact in
``.origins`` before the artifact becomes visible. Such an artifact can be used by name, but replaces
a build only if its signature was verified or the user allowed it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from gsx import typed_values
from gsx.errors import StoreError
from gsx.storage.artifacts.atomic_files import atomic_write
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.safe_files import make_directory, open_regular, remove_beneath

ORIGINS = ".origins"
_MAX_BYTES = 1 << 16


class Origin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a pulled artifact comes from."""

    source: str
    """Directory or URL, without credentials."""
    date: str
    """Day of the pull."""
    signed_by: str = ""
    """Id of the key whose signature was verified; empty without verification."""
    reusable: bool = False
    """Whether the artifact may be used in place of a build."""

    def describe(self, *, public: bool = False) -> str:
        """Return the origin as a phrase; with ``public``, without paths of this machine."""
        signed = f"signed by {self.signed_by}" if self.signed_by else "signature not verified"
        source = "a directory" if public and "://" not in self.source else self.source
        return f"pulled from {source} on {self.date}, {signed}"


def record_origin(target: Location, origin: Origin) -> None:
    """Record the origin of the artifact that will be published at ``target`` in a local store."""
    root, name = _record(target)
    make_directory(root, ORIGINS)
    atomic_write(root / name, readable_json(origin))


def read_origin(location: Location) -> Origin | None:
    """Return the origin of an artifact in a local store; None if it was built there."""
    if location.local is None:
        return None
    root, name = _record(location)
    try:
        with open_regular(root, name) as stream:
            return typed_values.decode_json(stream.read(_MAX_BYTES), Origin)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StoreError(
            f"{root / name} cannot be read: {error}. Remove it and the artifact that it describes."
        ) from error


def remove_origin(location: Location) -> None:
    """Remove the origin record of a removed artifact."""
    remove_beneath(*_record(location))


def _record(location: Location) -> tuple[Path, str]:
    """Return the root of the store that holds an artifact, and the path of its record there."""
    path = Path(location.root)
    return path.parent.parent, f"{ORIGINS}/{path.parent.name}-{path.name}.json"
