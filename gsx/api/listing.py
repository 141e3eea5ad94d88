"""`gsx.datasets` and `gsx.recipes`: what can be prepared and generated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsx.api.call import public, raw_folder
from gsx.api.display import Rows


@public()
def datasets(raw: str | Path | None = None) -> Rows:
    """List the datasets that can be prepared, and whether their raw files exist.

    Parameters
    ----------
    raw
        Directory of raw data files. Default: ``GSX_RAW_DATA``.

    Examples
    --------
    >>> gsx.datasets().to_pandas()["name"]
    """
    from gsx.pipeline.commands.datasets import list_datasets

    rows = list_datasets(raw_folder({"raw": raw}))
    table = [
        (
            row["name"],
            row["level"],
            row["shift"],
            row["source"],
            "/".join(map(str, row["counts"].values())),
        )
        for row in rows
    ]
    remark = "counts: graphs (or nodes) of train/id_val/id_test/ood_val/ood_test"
    return Rows(rows, table, ("NAME", "LEVEL", "SHIFT", "SOURCE", "COUNTS"), [remark])


@public()
def recipes(name: str | None = None) -> Rows:
    """List the named recipes of `gsx.generate`, or the one with this name.

    Examples
    --------
    >>> gsx.recipes("grow")[0]["options"]
    """
    import msgspec

    from gsx.pipeline.named_recipes import named_recipe, named_recipes

    listed = list(named_recipes().values()) if name is None else [named_recipe(name)]
    rows: list[dict[str, Any]] = [
        {**msgspec.to_builtins(recipe), "pretrained": list(recipe.pretrained)} for recipe in listed
    ]
    table = [
        (recipe.name, recipe.title, " or ".join(recipe.levels), ", ".join(recipe.pretrained))
        for recipe in listed
    ]
    return Rows(rows, table, ("NAME", "TITLE", "LEVEL", "MODELS"))
