"""Evidence of a recommendation: what was compared, how, and the outcome. Written as JSON.

It has no keys, paths or times, so that equal comparisons give equal bytes.
"""

from __future__ import annotations

import msgspec

from gsx.pipeline.recommend.decide import Difference
from gsx.pipeline.recommend.worker import LinearOptions, NetworkOptions

FILE = "evidence.json"
TOML_FILE = "recommended.toml"


class RecipeEvidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was found out about one recipe."""

    name: str
    left_out: str | None = None
    """Why it was not compared."""
    screen_scores: tuple[float, ...] = ()
    """Scores of linear models on validation graphs, by replicate."""
    screen: Difference | None = None
    """Difference to `none` in the screen."""
    scores: tuple[float, ...] = ()
    """Scores of networks on validation graphs, by seed."""
    confirmed: Difference | None = None
    """Difference to `none` in the confirmation."""
    dropped_after: int | None = None
    """Number of seeds after which it was dropped, because it was unlikely to be better."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that a recommendation rests on."""

    dataset: str
    metric: str
    choice: str
    """The recommended recipe; `none` if no other is better with high probability."""
    reason: str
    """The choice explained in one sentence."""
    decided_by: str
    """``confirmation``, ``screen`` or ``nothing``."""
    threshold: float | None = None
    """Probability from which a recipe is recommended."""
    validation: str = ""
    """Description of the validation split."""
    train_items: int = 0
    validation_items: int = 0
    budget: int
    linear: LinearOptions | None = None
    network: NetworkOptions | None = None
    recipes: tuple[RecipeEvidence, ...] = ()
