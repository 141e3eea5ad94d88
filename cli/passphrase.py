"""The passphrase of secret keys."""

from __future__ import annotations

import os


def read_passphrase() -> bytes | None:
    """Return the passphrase in the environment variable GSX_PASSPHRASE; None if it is not set."""
    passphrase = os.environ.get("GSX_PASSPHRASE")
    return passphrase.encode() if passphrase else None
