"""Format the scores of a trained model."""

from __future__ import annotations

from typing import Any

from gsx.cli.output import format_score, format_table
from gsx.pipeline.commands.option_values import RULES


def format_scores(scores: dict[str, Any]) -> list[str]:
    """Return a table of the scores of every selection rule, the selected one first.

    Epochs are counted from 1, like in the progress of training.
    """
    splits = ("id_val", "id_test", "ood_val", "ood_test")
    selected, chosen = scores["selected"], scores.get("chosen")
    rules = sorted(RULES, key=lambda rule: rule != selected)
    rows = [
        (
            _format_choice(chosen)
            if chosen
            else RULES[rule] + (" (selected)" if rule == selected else ""),
            None if chosen or row.get("epoch") is None else int(row["epoch"]) + 1,
            *(format_score(row.get(split)) for split in splits),
        )
        for rule in rules
        if (row := scores["selection"].get(rule)) is not None
    ]
    headers = (f"{scores['metric'].upper()} AT", "EPOCH", *(split.upper() for split in splits))
    return format_table(rows, headers)


def _format_choice(chosen: dict[str, Any]) -> str:
    """Return the hyper-parameters of a linear model."""
    return f"linear model, {chosen['counts']}, strength {chosen['strength']:g}"
