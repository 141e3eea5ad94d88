"""What the card and the report of a corpus both say of its task, in the same words."""

from __future__ import annotations

from gsx.schema import CorpusInfo

MOST_LETTERS = 40
"""Names of classes up to which the head of a column holds them."""
MOST_NAMES = 6
METRICS = {"accuracy": "accuracy", "roc_auc": "ROC-AUC", "mcc": "MCC", "rmse": "RMSE"}


def task_words(info: CorpusInfo) -> str:
    """Say what is to be told of every graph or node, and how that is scored."""
    item = "node" if info.level == "node" else "graph"
    named = ", ".join(info.outputs[:MOST_NAMES]) + (" …" if len(info.outputs) > MOST_NAMES else "")
    if info.task == "classification":
        said = f"Every {item} is one of {len(info.outputs)} classes ({named})"
    elif info.task in ("binary", "multitask"):
        said = f"Every {item} says yes or no to {named}"
    else:
        said = f"Every {item} has a value of {named}"
    return f"{said}, scored by {METRICS[info.metric]}."


def label_header(info: CorpusInfo) -> str | None:
    """Return what counts of labels are counts of, one after the other; None where none are hard."""
    if info.task == "binary" and len(info.outputs) == 1:
        return "no / yes"
    if info.task != "classification":
        return None
    named = " / ".join(info.outputs)
    return named if len(named) <= MOST_LETTERS else "labels, class by class"
