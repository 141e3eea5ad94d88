"""Limits on what files and servers of other people may cost.

Every limit is above what real data needs. An environment variable replaces it, for senders that the
user trusts: ``GSX_LIMIT_*`` for sizes and counts, ``GSX_TIMEOUT_*`` for seconds. Limits only refuse
input, so they are part of no key. SECURITY.md lists all of them.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass

from gsx.errors import UsageError

_SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BYTES = re.compile(r"([1-9][0-9]{0,15})([KMGT]?)")


@dataclass(frozen=True, slots=True)
class Limit:
    """A number of items or bytes, with the environment variable that replaces it."""

    name: str
    """Ends with ``_bytes`` if it is a number of bytes."""
    default: int

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return f"GSX_LIMIT_{self.name.upper()}"

    @property
    def is_bytes(self) -> bool:
        """Whether the limit is a number of bytes, which may have the suffix K, M, G or T."""
        return self.name.endswith("_bytes")

    @property
    def is_set(self) -> bool:
        """Whether the environment variable is set."""
        return bool(os.environ.get(self.variable))

    @property
    def value(self) -> int:
        """The limit: the environment variable, else the default."""
        setting = os.environ.get(self.variable, "").strip()
        if not setting:
            return self.default
        if self.is_bytes:
            match = _BYTES.fullmatch(setting.upper())
            if match is None:
                raise UsageError(
                    f"{self.variable}={setting[:40]!r} is not a number of bytes such as 16G."
                )
            return int(match[1]) * _SUFFIXES[match[2]]
        if not (setting.isascii() and setting.isdecimal() and len(setting) < 19):
            raise UsageError(
                f"{self.variable} must be an integer below 10^18 (found `{setting[:40]}`)."
            )
        return int(setting)

    @property
    def advice(self) -> str:
        """Last sentence of an error message about this limit."""
        return f"Set {self.variable} to a larger number if you trust the file."

    def __str__(self) -> str:
        """Return the default with its unit."""
        if not self.is_bytes:
            return f"{self.default:,}"
        unit, size = ("GiB", 1 << 30) if self.default % (1 << 30) == 0 else ("MiB", 1 << 20)
        return f"{self.default // size} {unit}"


@dataclass(frozen=True, slots=True)
class Timeout:
    """A number of seconds, with the environment variable that replaces it."""

    name: str
    default: float

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return f"GSX_TIMEOUT_{self.name.upper()}"

    @property
    def value(self) -> float:
        """The seconds: the environment variable, else the default."""
        setting = os.environ.get(self.variable, "").strip()
        if not setting:
            return self.default
        try:
            seconds = float(setting)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise UsageError(f"{self.variable}: `{setting[:40]}` is not a positive number.")
        return seconds

    @property
    def advice(self) -> str:
        """Last sentence of an error message about this timeout."""
        return f"Set {self.variable} to more seconds if you trust the server."

    def __str__(self) -> str:
        """Return the default with its unit."""
        return f"{self.default:g} s"


# Artifacts and stores

MANIFEST_BYTES = Limit("manifest_bytes", 256 << 20)
"""Bytes of a manifest, and of the manifests of a lineage together."""
MANIFEST_DETAILS_BYTES = Limit("manifest_details_bytes", 8 << 20)
"""Bytes of a manifest without its list of files: small JSON values are large in memory."""
FILES = Limit("files", 1_000_000)
"""Files of an artifact."""
ENTRIES = Limit("entries", 4_000_000)
"""Entries of a directory and all directories below it."""
ANCESTORS = Limit("lineage", 1000)
"""Entries of a lineage; a received artifact can claim any number of ancestors."""
JSON_BYTES = Limit("json_bytes", 64 << 20)
"""Bytes of a JSON file other than the manifest and the statistics."""
STATISTICS_BYTES = Limit("statistics_bytes", 1 << 30)
"""Bytes of the statistics of a corpus, which have one row per split and domain."""
ARRAYS_BYTES = Limit("arrays_bytes", 4 << 30)
"""Bytes of a file of arrays."""
DECODED_BYTES = Limit("decoded_bytes", 512 << 20)
"""Bytes that one read of a shard may decode; more if the size of the shard or the manifest
explains it (``gsx.storage.corpora.limits``)."""

# Raw files

COLUMNS = Limit("columns", 16_384)
"""Columns of a table."""
ROW_CHARACTERS = Limit("row_characters", 1 << 22)
"""Characters in one row of a table."""
ROWS = Limit("rows", 100_000)
"""Rows of a compressed table of any size; every row takes time to parse."""
UNPACKED_BYTES = Limit("unpacked_bytes", 1 << 24)
"""Bytes that a compressed file of any size may unpack to."""
EXPANDED_BYTES = Limit("expanded_bytes", 1 << 27)
"""Bytes of the arrays that are larger in memory than in a file of any size: repeated
tensors, one-hot codes of categories."""
NODES = Limit("nodes", 5_000_000)
"""Nodes without features, which a file only counts."""
LABEL_VALUES = Limit("label_values", 1 << 27)
"""Items times classes: the label of an item has one value per class."""

# Servers

HTTP = Timeout("http", 20.0)
"""Seconds of waiting after which a web server must have sent enough bytes."""
LIST = Timeout("list", 120.0)
"""Seconds that the listing of a remote store may take."""
DOWNLOAD = Timeout("download", 30.0)
"""Seconds without enough bytes after which the download of a raw file fails."""

LIMITS = (
    *(MANIFEST_BYTES, MANIFEST_DETAILS_BYTES, FILES, ENTRIES, ANCESTORS),
    *(JSON_BYTES, STATISTICS_BYTES, ARRAYS_BYTES),
    *(DECODED_BYTES, COLUMNS, ROW_CHARACTERS, ROWS, UNPACKED_BYTES, EXPANDED_BYTES),
    *(NODES, LABEL_VALUES, HTTP, LIST, DOWNLOAD),
)
