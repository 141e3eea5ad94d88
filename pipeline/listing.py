"""List the artifacts of a store with the options that distinguish them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gsx.errors import ArtifactError, UsageError, did_you_mean
from gsx.pipeline.stage_order import STAGES
from gsx.stages.stage import Stage
from gsx.stages.train.algorithms import ALGORITHMS
from gsx.stages.train.algorithms.options import OPTIONS, resolve_options
from gsx.stages.train.metrics import lower_is_better
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.manifest import MANIFEST, Manifest
from gsx.storage.artifacts.sidecars import read_run_record
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.artifacts.tags import read_tags
from gsx.storage.corpora.summary import model_scores, selected_rule, summary_name

ORDERS = ("kind", "date", "name", "score", "size", "key")
"""Facts by which a listing can be sorted."""
SCORE_SPLIT = "ood_val"
"""Split whose score sorts models: test scores are not for selection."""
_KINDS = tuple(dict.fromkeys(stage.kind for stage in STAGES))
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?\+00:00")
_HIDDEN_OPTIONS = {"dataset", "name", "raw", "formats", "shard_graphs", "source", "device"}
"""Options that do not distinguish artifacts, or that other columns show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedArtifact:
    """One artifact of a listing."""

    kind: str
    key: str
    generation: int
    digest: str
    path: str
    name: str | None
    """Name of the dataset."""
    tags: tuple[str, ...]
    date: str
    """End of the build, ISO 8601 in UTC; empty if unknown."""
    counts: Mapping[str, int]
    bytes: int
    stage: str
    stage_version: int
    options: Mapping[str, Any]
    """Options that differ from the defaults of the stage, and the seed of a model."""
    metric: str | None
    """Metric of the scores of a model."""
    scores: Mapping[str, float | None]
    """Split → score of a model, in the epoch that it reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions on listed artifacts; all must hold."""

    kind: str | None = None
    stage: str | None = None
    name: str | None = None
    """Part of the name of the dataset, or of a tag."""
    options: tuple[tuple[str, str], ...] = ()
    """Names and values of options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Artifacts of a store, and those that cannot be read."""

    artifacts: list[ListedArtifact]
    damaged: list[dict[str, str]]
    """``path`` and ``what`` of each damaged artifact."""


def list_store(
    store: Store, condition: Filter, *, order: str = "kind", descending: bool = False
) -> Listing:
    """Return the artifacts of a store that meet a condition, sorted.

    Ascending dates put the newest last. Equal artifacts are sorted by date, then by key.
    """
    entries = list(store.entries())
    _check_kind(condition.kind, {kind for kind, _, _ in entries})
    tags = tags_by_content(store)
    rows, damaged = [], []
    for entry in entries:
        if condition.kind not in (None, entry[0]):
            continue
        folder = store.folder(*entry)
        try:
            row = describe_artifact(store.peek_at(folder), tags)
        except ArtifactError as error:
            damaged.append({"path": folder.url, "what": str(error)})
            continue
        if _matches(row, condition):
            rows.append(row)
    rows.sort(key=lambda row: (row.date, row.key, row.generation))
    rows.sort(key=lambda row: _sort_key(row, order), reverse=descending)
    return Listing(artifacts=rows, damaged=damaged)


def differing_options(manifest: Manifest) -> dict[str, Any]:
    """Return the options of an artifact that differ from the defaults of its stage."""
    stage = next((stage for stage in STAGES if stage.name == manifest.stage), None)
    defaults = {} if stage is None else _defaults(stage, manifest.config)
    options = {
        name: value
        for name, value in manifest.config.items()
        if name not in _HIDDEN_OPTIONS
        and value not in (None, "", [])
        and (name not in defaults or defaults[name] != value)
    }
    options = {name: options[name] for name in _field_order(stage, options)}
    if manifest.kind == "model" and "seed" in manifest.config:
        options = {"seed": manifest.config["seed"], **options}
    return options


def distinguishing_options(rows: Sequence[ListedArtifact]) -> list[dict[str, Any]]:
    """Return the options of each row that not all rows of its stage share."""
    by_stage: dict[str, list[ListedArtifact]] = {}
    for row in rows:
        by_stage.setdefault(row.stage, []).append(row)
    shared = {
        stage: {
            name
            for name, value in same[0].options.items()
            if all(name in row.options and row.options[name] == value for row in same)
        }
        for stage, same in by_stage.items()
        if len(same) > 1
    }
    return [
        {
            name: value
            for name, value in row.options.items()
            if name not in shared.get(row.stage, ())
        }
        for row in rows
    ]


def _defaults(stage: Stage, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default of every option that has one, for the algorithm of a config."""
    defaults: dict[str, Any] = {}
    for field in msgspec.structs.fields(stage.config):
        if field.default is msgspec.UNSET:
            continue
        if field.default is not msgspec.NODEFAULT:
            defaults[field.name] = msgspec.to_builtins(field.default)
        elif field.default_factory is not msgspec.NODEFAULT:
            defaults[field.name] = msgspec.to_builtins(field.default_factory())
    algorithm = config.get("learner")
    if stage.name == "train" and algorithm in [entry.name for entry in ALGORITHMS]:
        unset = dict.fromkeys(OPTIONS)
        defaults |= resolve_options(algorithm, unset)
    return defaults


def _field_order(stage: Stage | None, options: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names of options in the order of the config."""
    fields = [] if stage is None else [f.name for f in msgspec.structs.fields(stage.config)]
    yield from (name for name in fields if name in options)
    yield from (name for name in options if name not in fields)


def _check_kind(kind: str | None, present: set[str]) -> None:
    known = {*_KINDS, *present}
    if kind is not None and kind not in known:
        raise UsageError(f"no artifacts of the kind `{kind}` exist. {did_you_mean(kind, known)}")


def tags_by_content(store: Store) -> dict[tuple[str, str, str], list[str]]:
    """Return kind, key and digest of every tagged artifact → its tags."""
    tags: dict[tuple[str, str, str], list[str]] = {}
    for name, tag in read_tags(store.location).items():
        tags.setdefault((tag.kind, tag.key, tag.digest), []).append(name)
    return tags


def describe_artifact(
    artifact: Artifact, tags: Mapping[tuple[str, str, str], Sequence[str]]
) -> ListedArtifact:
    """Return the facts of an artifact, given the tags of its store."""
    manifest = artifact.manifest
    metric, scores = None, {}
    if manifest.kind == "model":
        quality = model_scores(manifest)
        metric = quality["metric"]
        selected = quality["selection"].get(selected_rule(quality), {})
        scores = {name: value for name, value in selected.items() if name != "epoch"}
    return ListedArtifact(
        kind=manifest.kind,
        key=manifest.key,
        generation=artifact.generation,
        digest=manifest.digest,
        path=artifact.location.url,
        name=summary_name(manifest) or None,
        tags=tuple(tags.get((manifest.kind, manifest.key, manifest.digest), ())),
        date=_date(artifact.location),
        counts=manifest.counts,
        bytes=manifest.size,
        stage=manifest.stage,
        stage_version=manifest.stage_version,
        options=differing_options(manifest),
        metric=metric,
        scores=scores,
    )


def _date(location: Location) -> str:
    """Return the end of the build; for older artifacts, the time of the manifest."""
    record = read_run_record(location)
    if record is not None and _DATE.fullmatch(record.date):
        return record.date
    try:
        modified: datetime.datetime = location.fs.modified(location.path(MANIFEST))
    except (OSError, NotImplementedError):
        return ""
    return modified.astimezone(datetime.UTC).isoformat(timespec="milliseconds")


def _matches(row: ListedArtifact, condition: Filter) -> bool:
    text = condition.name
    named = text is None or any(text in name for name in (row.name or "", *row.tags))
    return (
        named
        and condition.stage in (None, row.stage)
        and all(str(row.options.get(name)) == value for name, value in condition.options)
    )


def _sort_key(row: ListedArtifact, order: str) -> tuple[Any, ...]:
    if order == "score":
        value = row.scores.get(SCORE_SPLIT)
        if value is None or row.metric is None:
            return (0, 0.0)
        return (1, -value if lower_is_better(row.metric) else value)
    if order == "kind":
        return (_KINDS.index(row.kind) if row.kind in _KINDS else len(_KINDS), row.kind)
    facts = {"date": row.date, "name": row.name or "", "size": row.bytes, "key": row.key}
    return (facts[order],)
