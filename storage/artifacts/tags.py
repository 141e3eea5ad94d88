"""Tags: names that users give to artifacts of a store.

A tag is a small JSON file ``.tags/<name>.json`` with kind, key and content digest of an artifact.
Its meaning does not change when the key is built again. Anyone who can write to the store can
change its tags: a tag is a shortcut for typing, not a statement about the artifact.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

import msgspec

from gsx import typed_values
from gsx.errors import StoreError, UsageError
from gsx.escape import folder_name
from gsx.names import shown
from gsx.storage.artifacts.atomic_files import atomic_create, atomic_write, translate_os_errors
from gsx.storage.artifacts.digest import readable_json
from gsx.storage.artifacts.location import Location, translate_remote_errors
from gsx.storage.artifacts.manifest import KIND, Manifest
from gsx.storage.artifacts.safe_files import make_directory, open_directory, remove_beneath

TAGS = ".tags"
"""Folder of a store with one file per tag."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_KEY = re.compile(r"[0-9a-f]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SUFFIX = ".json"
_MAX_BYTES = 1 << 12


class Tag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The artifact that a tag names."""

    kind: str
    key: str
    digest: str
    date: str
    """Day on which the tag was set."""

    @property
    def text(self) -> str:
        """Kind and short key of the artifact."""
        return f"{self.kind} {self.key[:12]}"


def is_tag_name(name: str) -> bool:
    """Return whether a tag may have this name; key prefixes are no tags."""
    return bool(_NAME.fullmatch(name) and not _KEY.fullmatch(name) and folder_name(name, ""))


def check_tag_name(name: str) -> None:
    """Raise UsageError unless a tag may have this name."""
    if _KEY.fullmatch(name):
        raise UsageError(f"`{name}` could be a key, so it cannot be a tag. Add another letter.")
    if not is_tag_name(name):
        raise UsageError(
            f"{shown(name)} cannot be a tag. Use up to 64 lower-case letters, digits, `-` and `_`, "
            "starting with a letter."
        )


def tag_of(manifest: Manifest) -> Tag:
    """Return a tag of today for an artifact."""
    date = datetime.now(UTC).date().isoformat()
    return Tag(kind=manifest.kind, key=manifest.key, digest=manifest.digest, date=date)


def read_tag(store: Location, name: str) -> Tag | None:
    """Return the tag ``name`` of a store; None if it does not exist."""
    if not is_tag_name(name):
        return None
    path = f"{TAGS}/{name}{_SUFFIX}"
    try:
        data = store.read_bytes(path, limit=_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        tag = typed_values.decode_json(data, Tag)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(
            f"{store.url}/{path} is not a tag: {error}. Remove it: `gsx tag --delete {name}`."
        ) from error
    if not (
        KIND.fullmatch(tag.kind) and _DIGEST.fullmatch(tag.key) and _DIGEST.fullmatch(tag.digest)
    ):
        raise StoreError(
            f"{store.url}/{path} names no artifact. Remove it: `gsx tag --delete {name}`."
        )
    return tag


def write_tag(store: Location, name: str, tag: Tag, *, replace: bool = False) -> Tag | None:
    """Write a tag and return the different one that it replaced, if any.

    Without ``replace``, an existing tag of another artifact is an error.
    """
    check_tag_name(name)
    previous = read_tag(store, name)
    if previous is not None and previous.digest == tag.digest and previous.key == tag.key:
        return None
    if previous is not None and not replace:
        _raise_taken(name, previous)
    data, path = readable_json(tag), f"{TAGS}/{name}{_SUFFIX}"
    if store.local is None:
        with translate_remote_errors(store):
            mode = "overwrite" if previous is not None else "create"
            try:
                store.fs.pipe_file(store.path(path), data, mode=mode)
            except FileExistsError:
                _raise_taken(name, read_tag(store, name))
        return previous
    with translate_os_errors(f"{store.url}/{TAGS}", consequence="No tag was changed."):
        folder = make_directory(store.local, TAGS)
        if previous is not None:
            atomic_write(folder / f"{name}{_SUFFIX}", data)
        elif not atomic_create(folder / f"{name}{_SUFFIX}", data):
            _raise_taken(name, read_tag(store, name))
    return previous


def remove_tag(store: Location, name: str) -> None:
    """Remove a tag; raise UsageError if it does not exist."""
    check_tag_name(name)
    path = f"{TAGS}/{name}{_SUFFIX}"
    if not store.exists(path):
        raise UsageError(f"no tag `{name}` in {store.url}. `gsx tag` lists the tags.")
    if store.local is None:
        with translate_remote_errors(store):
            store.fs.rm_file(store.path(path))
        return
    with translate_os_errors(f"{store.url}/{path}", consequence="The tag was not removed."):
        remove_beneath(store.local, path)


def tag_names(store: Location) -> list[str]:
    """Return the sorted names of all tags of a store."""
    if store.local is not None:
        try:
            with open_directory(store.local, TAGS) as folder:
                entries = os.listdir(folder)  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            return []
    else:
        entries = [path.rpartition("/")[2] for path in store.glob(f"{TAGS}/*{_SUFFIX}")]
    names = (entry.removesuffix(_SUFFIX) for entry in entries if entry.endswith(_SUFFIX))
    return sorted(name for name in names if is_tag_name(name))


def read_tags(store: Location) -> dict[str, Tag]:
    """Return all tags of a store by name; unreadable ones are errors."""
    return {name: tag for name in tag_names(store) if (tag := read_tag(store, name)) is not None}


def _raise_taken(name: str, tag: Tag | None) -> None:
    other = "" if tag is None else f" of {tag.text}"
    raise UsageError(
        f"`{name}` is already a tag{other}. Choose another name, or add `--force` to move it."
    )
