"""Descriptions of a task that the dataset card and the report share."""

from __future__ import annotations

from gsx.schema import CorpusInfo

MAX_HEADER_LENGTH = 40
"""Longest column header that lists the names of all classes."""
MAX_NAMED_OUTPUTS = 6
"""Largest number of classes or tasks that a description names."""
METRIC_NAMES = {"accuracy": "accuracy", "roc_auc": "ROC-AUC", "mcc": "MCC", "rmse": "RMSE"}


def task_description(info: CorpusInfo) -> str:
    """Return a sentence that describes the target and the metric."""
    item = "node" if info.level == "node" else "graph"
    more = " …" if len(info.outputs) > MAX_NAMED_OUTPUTS else ""
    names = ", ".join(info.outputs[:MAX_NAMED_OUTPUTS]) + more
    if info.task == "classification":
        text = f"Every {item} is one of {len(info.outputs)} classes ({names})"
    elif info.task in ("binary", "multitask"):
        text = f"Every {item} has binary labels for {names}"
    else:
        text = f"Every {item} has a value of {names}"
    return f"{text}, scored by {METRIC_NAMES[info.metric]}."


def label_header(info: CorpusInfo) -> str | None:
    """Return the column header for label counts, in order of class; None without hard labels."""
    if info.task == "binary" and len(info.outputs) == 1:
        return "no / yes"
    if info.task != "classification":
        return None
    names = " / ".join(info.outputs)
    return names if len(names) <= MAX_HEADER_LENGTH else "labels, class by class"
