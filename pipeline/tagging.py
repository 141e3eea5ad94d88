"""Set tags of artifacts in a store."""

from __future__ import annotations

from gsx.errors import UsageError
from gsx.stages.prepare.stage import FAMILIES
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.tags import Tag, check_tag_name, tag_of, write_tag
from gsx.storage.corpora.portable_copies import identity


def check_new_tag(name: str) -> None:
    """Raise UsageError unless a new tag may have this name; commands read datasets first."""
    check_tag_name(name)
    if any(name in (*family.names, *family.aliases) for family in FAMILIES):
        raise UsageError(
            f"`{name}` is the name of a dataset, so it cannot be a tag. Choose another."
        )


def tag_artifact(
    store: Store, artifact: Artifact, name: str, *, replace: bool = False
) -> Tag | None:
    """Give an artifact of the store a tag, and return the tag of another one that it replaced.

    The tag of a portable copy names the corpus that it was exported from.
    """
    check_new_tag(name)
    manifest = identity(artifact)
    stored = store.peek(manifest.kind, manifest.key, manifest.digest)
    if stored is None or stored.manifest.digest != manifest.digest:
        raise UsageError(
            f"{artifact.location.url} is not in the store {store.location.url}. Copy it there: "
            f"`gsx pull {artifact.location.url}`."
        )
    return write_tag(store.location, name, tag_of(stored.manifest), replace=replace)
