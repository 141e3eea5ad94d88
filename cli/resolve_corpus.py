"""Find the corpus that was typed; where there is none, say what would make one."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from gsx.errors import ArtifactError, UsageError

if TYPE_CHECKING:
    from gsx.storage.artifacts.store import Artifact, Store


def corpus_named(place: Store, word: str) -> Artifact:
    """Find a corpus; a word that is a dataset, or looks like one, gets a hint."""
    try:
        return place.resolve(word, kind="corpus")
    except ArtifactError as error:
        from gsx.stages.prepare.stage import FAMILIES

        names = [name for family in FAMILIES for name in (*family.names, *family.aliases)]
        if word in names:
            message = (
                f"`{word}` is a dataset. Make a corpus of it with `gsx prepare {word}`, and type "
                "the key that it prints."
            )
            raise UsageError(message) from error
        guess = difflib.get_close_matches(word, names, n=1)
        if not guess:
            raise
        message = f"no dataset and no corpus `{word}`. Did you mean `{guess[0]}`?"
        raise UsageError(message) from error
