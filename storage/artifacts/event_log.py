"""The log of a run: one line of JSON per event, readable while the run goes on and after a crash.

It lies beside the artifacts and decides nothing; removing it harms nothing.
"""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path


class RunLog:
    """Appends events to a file, each whole; a log that cannot be written is left out."""

    def __init__(self, folder: Path, key: str) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self.path = folder / f"{now:%Y%m%dT%H%M%S}-{key[:12]}-{os.getpid()}.jsonl"
        self._writable = True

    def write(self, event: str, **facts: object) -> None:
        """Append one event."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": event, **facts}, ensure_ascii=False)
        if not self._writable:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(line + "\n")
        except OSError:
            self._writable = False  # a full or read-only disk will be met where it matters
