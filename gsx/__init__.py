"""gsx: materialize out-of-distribution graph datasets as versioned artifacts on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gsx.storage.corpora.corpus import open_corpus as open

__version__ = "0.2.0"
__all__ = ["__version__", "open"]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import ``open`` on first access, so that ``import gsx`` stays fast."""
    if name == "open":
        from gsx.storage.corpora.corpus import open_corpus

        return open_corpus
    raise AttributeError(f"module `gsx` has no attribute `{name}`")
