"""The event log of a run: JSON lines, readable during the run and after a crash.

The log is informative only. Deleting it has no effect on artifacts.
"""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

from gsx.errors import ArtifactError
from gsx.storage.artifacts.safe_files import append_text, make_directory


class EventLog:
    """Appends one JSON line per event; write errors disable the log."""

    def __init__(self, folder: Path, key: str) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self.path = folder / f"{now:%Y%m%dT%H%M%S}-{key[:12]}-{os.getpid()}.jsonl"
        self._writable = True

    def write(self, event: str, **fields: object) -> None:
        """Append one event."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **fields}, ensure_ascii=False)
        if not self._writable:
            return
        try:
            folder = self.path.parent
            folder.parent.mkdir(parents=True, exist_ok=True)
            make_directory(folder.parent, folder.name)  # not a link to another folder
            append_text(folder.parent, f"{folder.name}/{self.path.name}", line + "\n")
        except (OSError, ArtifactError):
            self._writable = (
                False  # a full or read-only disk is reported where artifacts are written
            )
