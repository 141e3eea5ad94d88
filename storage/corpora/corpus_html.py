"""HTML summary of a corpus for notebooks."""

from __future__ import annotations

from html import escape

from gsx.schema import CorpusInfo
from gsx.storage.corpora.summary import CorpusSummary


def corpus_html(info: CorpusInfo, summary: CorpusSummary, key: str) -> str:
    """Return a table of splits and environments."""
    groups = summary.get("node_groups") or summary["groups"]
    names = {environment.id: environment.name for environment in info.environments}
    # Class counts do not describe numbers and several tasks.
    classes = info.task in ("classification", "binary")
    rows = "".join(
        f"<tr><td>{escape(group['split'])}</td>"
        f"<td>{escape(names.get(group['env_id'], 'unknown'))}</td><td>{group['count']:,}</td>"
        + (f"<td>{'/'.join(map(str, group['labels']))}</td></tr>" if classes else "</tr>")
        for group in groups
    )
    unit = "nodes" if info.level == "node" else "graphs"
    return (
        f"<div><b>{escape(info.name)}</b> <code>{key[:12]}</code><br>"
        f"{escape(info.description)}<br>{escape(info.task)} of "
        f"{escape(', '.join(info.outputs[:8]))}; domain: {escape(info.domain)}"
        f"<table><thead><tr><th>split</th><th>environment</th><th>{unit}</th>"
        f"{'<th>labels</th>' if classes else ''}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
