"""Files next to the manifest that no hash covers: the run record and the signature.

They are optional and never trusted. A file that is not what its name promises is not copied.
"""

from __future__ import annotations

import contextlib
import re

import msgspec

from gsx import typed_values
from gsx.errors import ArtifactError
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import RUN_RECORD, SIGNATURE
from gsx.storage.artifacts.run_record import RunRecord

MAX_RUN_RECORD_BYTES = 1 << 20
MAX_SIGNATURE_BYTES = 1 << 16

_SIGNATURE = re.compile(
    rb"untrusted comment: [^\r\n]*\n[A-Za-z0-9+/=]+\ntrusted comment: [^\r\n]*\n[A-Za-z0-9+/=]+\n?"
)


def read_run_record(location: Location) -> RunRecord | None:
    """Return the run record of an artifact; None if it is missing or invalid."""
    try:
        data = location.read_bytes(RUN_RECORD, limit=MAX_RUN_RECORD_BYTES)
        return typed_values.decode_json(data, RunRecord)
    except (OSError, ArtifactError, UnicodeDecodeError, msgspec.MsgspecError, RecursionError):
        return None


def read_sidecars(location: Location) -> dict[str, bytes]:
    """Return the content of the valid files among the run record and the signature, by name."""
    sidecars = {}
    record = read_run_record(location)
    if record is not None:
        sidecars[RUN_RECORD] = readable_json(record)
    with contextlib.suppress(OSError, ArtifactError):
        signature = location.read_bytes(SIGNATURE, limit=MAX_SIGNATURE_BYTES)
        if _SIGNATURE.fullmatch(signature):
            sidecars[SIGNATURE] = signature
    return sidecars
