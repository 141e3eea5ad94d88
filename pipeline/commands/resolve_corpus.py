"""Find the corpus that the user named."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from gsx.errors import ArtifactError, UsageError

if TYPE_CHECKING:
    from gsx.storage.artifacts.store import Artifact, Store


def resolve_corpus(store: Store, name: str | Artifact) -> Artifact:
    """Return the corpus with this key, key prefix, tag or path; an artifact is returned as it is.

    If there is none and ``name`` is a dataset, or similar to one, the error explains what to do.
    """
    if not isinstance(name, str):
        return name
    try:
        return store.resolve(name, kind="corpus")
    except ArtifactError as error:
        from gsx.stages.prepare.stage import FAMILIES

        datasets = [
            dataset
            for family in FAMILIES
            if family.listed
            for dataset in (*family.names, *family.aliases)
        ]
        if name in datasets:
            message = (
                f"`{name}` is a dataset, not a corpus. Run `gsx prepare {name}` and pass the key "
                "that it prints."
            )
            raise UsageError(message) from error
        matches = difflib.get_close_matches(name, datasets, n=1)
        if not matches:
            raise
        message = f"no dataset and no corpus `{name}`. Did you mean `{matches[0]}`?"
        raise UsageError(message) from error
