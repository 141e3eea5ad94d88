"""A directory for the cases of one process, next to files that no case may read or change.

``base/canary`` holds files with a secret, among them the home directory. Access times of the
secret files are set back, so that any read changes them, also a read by native code.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECRET = b"CANARY-0a2f9c-SECRET"
CANARY_FILES = (
    "secret.txt",
    "folder/inside.txt",
    "folder/deep/more.txt",
    "manifest.json",
    "home/.bashrc",
    "home/.ssh/id_ed25519",
    "home/documents/thesis.txt",
    "data.parquet",
)
CASE_FOLDERS = ("in", "store", "out", "cache", "tmp")
_OLD = 1_000_000_000
_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGING = (
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.truncate",
    "os.chown",
    "os.utime",
    "shutil.rmtree",
)


@dataclass
class Box:
    """The directories of one case."""

    base: Path
    root: Path

    @property
    def canary(self) -> Path:
        """Files outside, which no case may touch."""
        return self.base / "canary"

    def __getattr__(self, name: str) -> Path:
        if name.rstrip("_") not in CASE_FOLDERS:
            raise AttributeError(name)
        return self.root / name.rstrip("_")


class Sandbox:
    """Creates the directories of cases and reports what changed outside of them."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.canary = base / "canary"
        self.outside_writes: list[str] = []
        self._watching = False
        self._folder = str(base)
        self._stamps: dict[str, tuple] = {}

    def reset(self) -> None:
        """Write the canary files anew."""
        delete(self.canary)
        for name in CANARY_FILES:
            path = self.canary / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(SECRET + b"\n" + name.encode() + b"\n")
        for path in walk(self.canary):
            os.utime(path, ns=(_OLD * 10**9, path.stat().st_mtime_ns))
        self._stamps = {str(path): stamp(path) for path in (self.canary, *walk(self.canary))}

    def new_case(self, name: str) -> Box:
        """Return empty directories for a case; the environment points into them."""
        box = Box(self.base, self.base / "box" / name)
        delete(box.root)
        for folder in CASE_FOLDERS:
            (box.root / folder).mkdir(parents=True)
        home, temporary = str(self.canary / "home"), str(box.root / "tmp")
        os.environ |= {
            "HOME": home,
            "GSX_CACHE": str(box.root / "cache"),
            "TMPDIR": temporary,
            "XDG_CACHE_HOME": f"{temporary}/xdg",
        }
        tempfile.tempdir = None
        self._folder = str(box.root / "tmp")
        os.chdir(self._folder)
        self.outside_writes.clear()
        return box

    def violations(self, box: Box) -> Iterator[tuple[str, str]]:
        """Yield kind and detail of what happened outside since the case began."""
        now = {str(path): stamp(path) for path in (self.canary, *walk(self.canary))}
        touched: dict[str, str] = {}
        for path in sorted(now.keys() | self._stamps.keys()):
            if path not in self._stamps:
                touched.setdefault("outside created", path)
            elif path not in now:
                touched.setdefault("outside deleted", path)
            elif now[path][1:] != self._stamps[path][1:]:
                touched.setdefault("outside changed", path)
            elif now[path][0] != self._stamps[path][0]:
                touched.setdefault("outside read", path)
        for kind in ("outside deleted", "outside created", "outside changed", "outside read"):
            if kind in touched:  # the others follow from the first: a folder changes, too
                yield kind, touched[kind]
                break
        strange = {path.name for path in box.root.iterdir()} - set(CASE_FOLDERS)
        if strange:
            yield "left the case directory", ", ".join(sorted(strange))
        for text in dict.fromkeys(self.outside_writes):
            yield "outside write", text
        self.outside_writes.clear()
        if touched:
            self.reset()

    def watch(self) -> None:
        """Report calls of Python that write outside of the base directory."""
        if not self._watching:
            sys.addaudithook(self._audit)
            self._watching = True

    def _audit(self, event: str, arguments: tuple) -> None:
        if event == "open":
            path, mode, flags = arguments
            writes = bool(flags & _WRITE) if isinstance(flags, int) else "w" in str(mode)
            if not writes or isinstance(path, int):
                return
        elif event not in _CHANGING:
            return
        for path in arguments[:2] if event in ("os.rename", "os.link") else arguments[:1]:
            if isinstance(path, str | bytes):
                text = os.path.normpath(Path(self._folder, os.fsdecode(path)))
                allowed = (str(self.base), "/dev/null", "/dev/shm/", "/proc/self/", "/dev/tty")
                if not text.startswith(allowed):
                    self.outside_writes.append(f"{event} {text}")


def stamp(path: Path) -> tuple:
    """Return access time, then everything that changes with a file."""
    info = path.lstat()
    accessed = 0 if stat.S_ISDIR(info.st_mode) else info.st_atime_ns
    changed = (info.st_ino, info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return (accessed, *changed, info.st_nlink)


def walk(root: Path) -> Iterator[Path]:
    """Yield everything below a directory; links are not followed."""
    if root.is_symlink() or not root.is_dir():
        return
    try:
        paths = sorted(root.iterdir())
    except PermissionError:
        return
    for path in paths:
        yield path
        yield from walk(path)


def snapshot(root: Path) -> dict[str, tuple]:
    """Return path → stamp without access time."""
    return {str(path.relative_to(root)): stamp(path)[1:] for path in walk(root)}


def delete(root: Path) -> None:
    """Delete a directory with unreadable parts; links are not followed."""

    def make_writable(function, path, _error) -> None:
        parent = Path(path).parent
        for folder in (parent, Path(path)):
            if not folder.is_symlink() and folder.exists():
                folder.chmod(0o700)
        if Path(path).is_dir() and not Path(path).is_symlink():
            shutil.rmtree(path)
        else:
            function(path)

    if root.exists():
        shutil.rmtree(root, onerror=make_writable)
