"""`gsx gc`: list or delete garbage of a store, or artifacts."""

from __future__ import annotations

from collections.abc import Sequence

from gsx.storage.artifacts.store import Store
from gsx.storage.gc import Garbage, find_garbage, list_artifacts, remove_artifacts, remove_garbage


def collect_garbage(
    store: Store, artifacts: Sequence[str], *, delete: bool, with_descendants: bool
) -> list[Garbage]:
    """Return unused files of a store, or the given artifacts; delete them only if ``delete``."""
    if artifacts:
        selected = list_artifacts(store, artifacts, with_descendants=with_descendants)
        if delete:
            remove_artifacts(store, [artifact for _, artifact in selected])
        return [item for item, _ in selected]
    items = list(find_garbage(store))
    return [item for item in items if remove_garbage(store, item)] if delete else items
