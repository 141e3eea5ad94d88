"""Edits of files: JSON values, bytes, file types, and members of archives.

An edit is a JSON object with ``do`` and ``file``. Edits that do not apply, because an earlier one
removed their target, have no effect.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import shutil
import socket
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.values import dumps, expand

Edit = dict[str, Any]
MAX_REPEATED = 4 << 20
"""Bytes that repeated lines may have together."""


def apply(root: Path, edit: Edit, canary: Path) -> None:
    """Apply one edit below ``root``."""
    path = root / edit["file"].replace("@CANARY@", str(canary))
    with contextlib.suppress(
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        OSError,
        RecursionError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        RuntimeError,
    ):
        if edit["do"] == "file":
            edit_file(path, edit, canary)
        elif edit["do"] in ("parquet", "zarr"):
            from tests.fuzz import shard_edits

            shard_edits.apply(path, edit, canary)
        else:
            if not path.is_file() or path.stat().st_size > 1 << 26:
                raise ValueError(f"{path} is no small regular file")
            data = path.read_bytes()
            replace(path, edit_data(data, edit, canary))


def replace(path: Path, data: bytes) -> None:
    """Write a file anew, so that read-only files and links are no obstacle."""
    if path.is_symlink() or path.exists():
        path.unlink()
    path.write_bytes(data)


def edit_data(data: bytes, edit: Edit, canary: Path) -> bytes:
    """Return the content of a file after an edit."""
    return _DATA_EDITS[edit["do"]](data, edit, canary)


# JSON


def edit_json(value: Any, edit: Edit) -> Any:
    """Return a JSON value after an edit at ``path``."""
    path, new = edit["path"], edit.get("value")
    if not path:
        return new if edit["edit"] == "set" else value
    parent = value
    for name in path[:-1]:
        parent = parent[name]
    name = path[-1]
    match edit["edit"]:
        case "set":
            parent[name] = new
        case "delete":
            del parent[name]
        case "add" if isinstance(parent[name], list):
            parent[name].insert(edit.get("at", 0), new)
        case "add":
            parent[name][edit["name"]] = new
        case "duplicate":
            if isinstance(parent, list):
                parent.insert(name, parent[name])
            else:
                parent["\x00" + name] = new
        case "rename":
            parent[edit["name"]] = parent.pop(name)
    return value


def _json(data: bytes, edit: Edit, canary: Path) -> bytes:
    return dumps(edit_json(json.loads(data), edit), str(canary)).encode("utf-8", "surrogatepass")


def _header(data: bytes, edit: Edit, canary: Path) -> bytes:
    """Edit the JSON header of safetensors."""
    if len(data) < 8:
        raise ValueError("the file has no header")
    (length,) = struct.unpack("<Q", data[:8])
    header = _json(data[8 : 8 + length], edit, canary)
    return struct.pack("<Q", edit.get("length", len(header))) + header + data[8 + length :]


# Bytes and text


def _bytes(data: bytes, edit: Edit, canary: Path) -> bytes:
    at = (
        int(edit.get("at", 0) * len(data))
        if isinstance(edit.get("at"), float)
        else edit.get("at", 0)
    )
    value = bytes.fromhex(edit.get("value", "")) * edit.get("times", 1)
    match edit["edit"]:
        case "flip":
            changed = bytearray(data)
            changed[at] ^= edit["mask"]
            return bytes(changed)
        case "write":
            return data[:at] + value + data[at + len(value) :]
        case "insert":
            return data[:at] + value + data[at:]
        case "cut":
            return data[:at]
        case "remove":
            return data[:at] + data[at + edit["count"] :]
    raise ValueError(edit["edit"])


def _text(data: bytes, edit: Edit, canary: Path) -> bytes:
    """Edit lines and comma-separated cells."""
    text = data.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    value = str(expand(edit.get("value", ""), str(canary)))
    match edit["edit"]:
        case "cell":
            cells = lines[edit["line"]].split(edit.get("separator", ","))
            cells[edit["cell"]] = value
            lines[edit["line"]] = edit.get("separator", ",").join(cells)
        case "line":
            lines[edit["line"]] = value
        case "insert":
            lines[edit["line"] : edit["line"]] = [value] * _times(edit, value)
        case "delete":
            del lines[edit["line"]]
        case "duplicate":
            lines[edit["line"] : edit["line"]] = [lines[edit["line"]]] * _times(
                edit, lines[edit["line"]]
            )
        case "column":
            lines = [line and f"{line}{edit.get('separator', ',')}{value}" for line in lines]
        case "replace":
            return text.replace(edit["old"], value).encode("utf-8", "surrogateescape")
        case "endings":
            return "\r\n".join(lines).encode("utf-8", "surrogateescape")
        case "encode":
            return text.encode(value, "replace")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _times(edit: Edit, line: str) -> int:
    """Return how often a line is repeated; a case has at most a few megabytes."""
    return max(1, min(edit.get("times", 1), MAX_REPEATED // max(len(line), 1)))


# Formats inside others


def _inside(data: bytes, edit: Edit, canary: Path) -> bytes:
    """Edit a member of a zip file, or the content of a gzip file, and pack it again."""
    if "member" not in edit:
        return gzip.compress(edit_data(gzip.decompress(data), edit["edit"], canary), mtime=0)
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename == edit["member"]:
                content = edit_data(content, edit["edit"], canary)
            new.writestr(info, content)
    return out.getvalue()


def _zip(data: bytes, edit: Edit, canary: Path) -> bytes:
    """Rename, add, repeat, drop or mark members of a zip file."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for info in old.infolist():
            content = old.read(info)
            chosen = info.filename == edit.get("member")
            if chosen and edit["edit"] == "drop":
                continue
            if chosen and edit["edit"] == "rename":
                info.filename = expand(edit["name"], str(canary))
            if chosen and edit["edit"] == "mode":
                info.external_attr = edit["value"] << 16
            new.writestr(info, content)
            if chosen and edit["edit"] == "repeat":
                new.writestr(info, content)
        if edit["edit"] == "add":
            info = zipfile.ZipInfo(str(expand(edit["name"], str(canary))))
            info.external_attr = edit.get("mode", 0o644) << 16
            new.writestr(
                info, str(expand(edit.get("value", ""), str(canary))), zipfile.ZIP_DEFLATED
            )
        if edit["edit"] == "bomb":
            new.writestr(edit["name"], b"0" * edit["value"], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _npy(data: bytes, edit: Edit, canary: Path) -> bytes:
    """Replace fields of the header of a NumPy file."""
    start, stop = data.index(b"{"), data.index(b"}") + 1
    header = edit["header"] if "header" in edit else data[start:stop].decode()
    for name in ("descr", "shape", "fortran_order"):
        if name in edit:
            begin = header.index(f"'{name}': ") + len(name) + 4
            end = header.index(", '", begin) if ", '" in header[begin:] else header.rindex("}")
            header = header[:begin] + edit[name] + header[end:]
    text = header.encode().ljust(stop - start)
    return (
        data[:8] + struct.pack("<H", len(text) + 1) + text + b"\n" + data[data.index(b"\n") + 1 :]
    )


_DATA_EDITS: dict[str, Callable[[bytes, Edit, Path], bytes]] = {
    "json": _json,
    "header": _header,
    "bytes": _bytes,
    "text": _text,
    "inside": _inside,
    "zip": _zip,
    "npy": _npy,
}


# File types


def edit_file(path: Path, edit: Edit, canary: Path) -> None:
    """Replace a file or directory by something else, or add a file."""
    kind = edit["edit"]
    target = str(expand(edit.get("to", ""), str(canary)))
    if kind == "mode":
        path.chmod(edit["value"])
        return
    if kind == "rename":
        path.rename(path.with_name(target))
        return
    if kind == "copy":
        shutil.copyfile(path, path.with_name(target))
        return
    if kind == "link to itself":
        target, kind = path.name, "symlink"
    if kind == "move and link":  # the same content, behind a link
        moved = path.with_name(path.name + ".moved")
        path.rename(moved)
        path.symlink_to(moved.name)
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "remove":
            pass
        case "symlink":
            path.symlink_to(target)
        case "hardlink":
            os.link(path.with_name(target), path)
        case "fifo":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(path))
        case "device":
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, edit["value"]))
        case "directory":
            path.mkdir()
            (path / "inner").write_text("x")
        case "write":
            path.write_bytes(target.encode())
        case "sparse":
            with path.open("wb") as stream:
                stream.truncate(edit["value"])
