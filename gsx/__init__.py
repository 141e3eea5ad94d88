"""gsx: materialize out-of-distribution graph datasets as versioned artifacts on disk.

The public names load on first access, so that ``import gsx`` takes no time (docs/api.md). Their
types are in ``__init__.pyi``.
"""

_MODULES = {
    "Comparison": "gsx.api.comparison",
    "Corpus": "gsx.storage.corpora.corpus",
    "GsxError": "gsx.errors",
    "Model": "gsx.api.models",
    "Predictions": "gsx.api.predictions",
    "Recommendation": "gsx.api.recommendation",
    "Scores": "gsx.api.models",
    "Statistics": "gsx.api.statistics",
    "Store": "gsx.api.store",
    "Verification": "gsx.api.verification",
    "augment": "gsx.api.corpora",
    "compare": "gsx.api.comparison",
    "datasets": "gsx.api.listing",
    "describe": "gsx.api.statistics",
    "evaluate": "gsx.api.models",
    "export": "gsx.api.publishing",
    "generate": "gsx.api.corpora",
    "open": "gsx.api.corpora",
    "predict": "gsx.api.predictions",
    "prepare": "gsx.api.corpora",
    "recipes": "gsx.api.listing",
    "recommend": "gsx.api.recommendation",
    "report": "gsx.api.publishing",
    "run": "gsx.api.corpora",
    "train": "gsx.api.models",
    "verify": "gsx.api.verification",
}
"""Public name → module that defines it."""

__version__ = "0.2.0"
__all__ = ["__version__", "errors", *_MODULES]


def __getattr__(name):  # noqa: ANN001, ANN202
    """Import a public name on first access."""
    from importlib import import_module

    if name == "errors":
        return import_module("gsx.errors")
    if name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value
    from difflib import get_close_matches

    close = get_close_matches(name, __all__, n=1)
    hint = f". Did you mean `{close[0]}`?" if close else ""
    raise AttributeError(f"module `gsx` has no attribute `{name}`{hint}")


def __dir__():  # noqa: ANN202
    """Return the public names."""
    return sorted(__all__)
