"""Confine a process on Linux: no writes outside a directory, and no privileges of root.

A bug that a case triggers could delete files of the machine. Without Landlock (Linux 5.19) or on
other systems nothing is confined; the canary files still show what happened.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _CAPSET = 444, 445, 446, 126
_PR_SET_NO_NEW_PRIVS = 38
_WRITES = sum(1 << bit for bit in (1, *range(4, 15)))
"""Writing, removing, creating, linking and truncating files."""
_WRITE_FILE = 1 << 1


def confine(writable: Path) -> bool:
    """Forbid this process and its children to write outside ``writable``; return success."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    _drop_capabilities(libc)
    attributes = ctypes.c_uint64(_WRITES)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(8), 0)
    if ruleset < 0:
        return False
    for path, access in (
        (writable, _WRITES),
        (Path("/dev"), _WRITE_FILE),
        (Path("/proc"), _WRITE_FILE),
    ):
        folder = os.open(path, os.O_PATH)
        rule = (ctypes.c_char * 12).from_buffer_copy(
            access.to_bytes(8, sys.byteorder) + folder.to_bytes(4, sys.byteorder)
        )
        libc.syscall(_ADD_RULE, ruleset, 1, ctypes.byref(rule), 0)
        os.close(folder)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    done = libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return done == 0


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Give up all capabilities, so that permissions apply to root as well."""
    if os.geteuid() == 0:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        libc.syscall(_CAPSET, header, (ctypes.c_uint32 * 6)())
