"""`gsx.recommend`: find out which named recipe helps on a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from gsx.api.call import as_text, open_session, public, raw_folder, source_of
from gsx.api.display import Result, TableRows
from gsx.api.options import RecommendOptions

if TYPE_CHECKING:
    import pandas

    from gsx.pipeline.recommend.evidence import Evidence
    from gsx.storage.artifacts.store import Artifact, Store
    from gsx.storage.corpora.corpus import Corpus


class Recommendation(Result):
    """Which recipe helps on a corpus, and the evidence; pass it to `gsx.generate` as the recipe."""

    def __init__(self, artifact: Artifact, store: Store) -> None:
        self.artifact = artifact
        self.store = store

    @cached_property
    def evidence(self) -> Evidence:
        """Everything that the recommendation rests on: scores of every recipe and seed."""
        from gsx.pipeline.commands.recommend import read_evidence

        return read_evidence(self.artifact)

    @property
    def choice(self) -> str:
        """The recommended recipe; ``none`` if no other is better with high probability."""
        return self.evidence.choice

    @property
    def reason(self) -> str:
        """The choice explained in one sentence."""
        return self.evidence.reason

    @property
    def key(self) -> str:
        """Key of the recommendation."""
        return self.artifact.key

    @property
    def path(self) -> str:
        """Directory or URL of the recommendation, with `evidence.json` and `recommended.toml`."""
        return self.artifact.location.url

    @property
    def table(self) -> pandas.DataFrame:
        """One row per compared recipe."""
        return self.to_pandas()

    def to_dict(self) -> dict[str, Any]:
        """Return the evidence as plain values."""
        import msgspec

        from gsx.pipeline.commands.recommend import recipe_seconds

        document: dict[str, Any] = msgspec.to_builtins(self.evidence)
        return {**document, "recipe_seconds": recipe_seconds(self.artifact)}

    def _lines(self) -> tuple[list[str], list[str]]:
        evidence = self.evidence
        left_out = [recipe.name for recipe in evidence.recipes if recipe.left_out is not None]
        remarks = [f"not compared: {', '.join(left_out)}"] if left_out else []
        remarks += [
            f"{evidence.metric} on {evidence.validation or 'no validation data'}: "
            f"{evidence.validation_items:,} items; {evidence.train_items:,} training items",
            f"recommended: {evidence.choice}. {evidence.reason}",
        ]
        return [], remarks

    def _table(self) -> tuple[TableRows, Sequence[str]]:
        from gsx.pipeline.commands.recommend import evidence_table, recipe_seconds

        return evidence_table(self.evidence, recipe_seconds(self.artifact))

    def _records(self) -> Sequence[Mapping[str, Any]]:
        import statistics

        rows = []
        for recipe in self.evidence.recipes:
            screen, confirmed = recipe.screen, recipe.confirmed
            rows.append(
                {
                    "recipe": recipe.name,
                    "left_out": recipe.left_out,
                    "screen_score": statistics.fmean(recipe.screen_scores)
                    if recipe.screen_scores
                    else None,
                    "screen_difference": None if screen is None else screen.mean,
                    "score": statistics.fmean(recipe.scores) if recipe.scores else None,
                    "difference": None if confirmed is None else confirmed.mean,
                    "low": None if confirmed is None else confirmed.low,
                    "high": None if confirmed is None else confirmed.high,
                    "runs": len(recipe.scores),
                }
            )
        return rows


@public(RecommendOptions)
def recommend(
    source: str | Path | Corpus, budget: str | int = "10m", **options: Unpack[RecommendOptions]
) -> Recommendation:
    """Compare the named recipes on a dataset or a corpus, and recommend one, or none.

    Linear models screen all recipes that apply; then small networks are trained with and without
    the most promising ones. Only training and validation data are read.

    Parameters
    ----------
    source
        A corpus, or the name of a dataset.
    budget
        Computing time on one core, such as ``"90s"``, ``"10m"``, or seconds; 0 only screens.
    options
        Those of `gsx recommend` with underscores: ``recipes=["grow"]``, ``graphs=``, ``seed=``, …

    Examples
    --------
    >>> advice = gsx.recommend(mine, budget="5m")
    >>> advice.choice
    >>> corpus = gsx.generate(mine, recipe=advice)
    """
    from gsx.errors import UsageError
    from gsx.pipeline.commands.recommend import recommend as recommend_recipe

    if not isinstance(budget, str | int) or isinstance(budget, bool):
        raise UsageError(
            "gsx.recommend: a budget is a duration such as 90s or 10m, or seconds; got "
            f"{type(budget).__name__}"
        )
    given: dict[str, Any] = dict(options)
    session = open_session(given, source)
    results = recommend_recipe(
        source_of("gsx.recommend", source),
        {"num_graphs": given.get("num_graphs"), "raw": raw_folder(given)},
        session,
        as_text(given.get("out")),  # type: ignore[arg-type]
        budget=budget,
        recipes=given.get("recipes"),
        graphs=given.get("graphs", 3000),
        seed=given.get("seed", 0),
    )
    return Recommendation(results[-1].built.artifact, session.store)
