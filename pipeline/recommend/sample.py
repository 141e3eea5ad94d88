"""The corpus that recipes are compared on: a sample of training graphs, and a validation split.

It has the splits `train`, `id_val` (which bridge models are evaluated on) and `ood_val`. Test
graphs are left out, so nothing that follows can read a test label. Without an `ood_val` split,
training graphs of one environment take its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from gsx.ragged import Array, Ints, Ragged
from gsx.schema import SPLITS, CorpusInfo
from gsx.seeds import rng
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.manifest import Parent
from gsx.storage.artifacts.publish import Identity, StageResult, build_artifact
from gsx.storage.artifacts.store import Artifact, Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import plan_shards, write_corpus
from gsx.storage.corpora.portable_copies import identity
from gsx.table import GraphTable, concat

VALIDATION, ID_VALIDATION = "ood_val", "id_val"
TRAIN_CODE, VALIDATION_CODE = SPLITS.index("train"), SPLITS.index(VALIDATION)
HELD_OUT_SHARE = 0.2
"""Share of training graphs that are held out if there are no environments to hold out."""


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Graphs to compare recipes on, and where they come from."""

    corpus: Artifact
    validation: str
    """Description of the validation split."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """Training items that take the place of a missing validation split."""

    rows: Array
    """``[G]`` or ``[N]`` whether a training item is held out."""
    description: str
    env: int | None
    """The environment that is held out as a whole."""


def write_sample(source: Artifact, store: Store, *, graphs: int, seed: int) -> Sample:
    """Write the corpus to compare recipes on into a scratch store."""
    corpus = Corpus(source)
    if corpus.info.level == "node":
        table, info, description = _node_sample(corpus)
    else:
        table, info, description = _graph_sample(corpus, graphs, seed)
    splits = table.dense("graph", "split")
    order = np.argsort(splits, kind="stable")
    table = table.take(order)
    sizes = {
        name: int((splits == code).sum()) for code, name in enumerate(SPLITS) if code in splits
    }
    starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))

    def write(draft: Draft) -> StageResult:
        def make(shard: object) -> GraphTable:
            first = int(starts[shard.split])  # type: ignore[attr-defined]
            return table.slice(first + shard.start, first + shard.stop)  # type: ignore[attr-defined]

        per_shard = max(len(table), 1)
        return write_corpus(draft, info, plan_shards(sizes, per_shard), make)

    manifest = identity(source)
    sample = Identity(
        kind="corpus",
        stage="recommend-sample",
        stage_version=1,
        config={"graphs": graphs, "seed": seed},
        parents=(Parent(role="corpus", kind="corpus", key=manifest.key, digest=manifest.digest),),
    )
    return Sample(build_artifact(store, sample, write).artifact, description)


def _graph_sample(corpus: Corpus, graphs: int, seed: int) -> tuple[GraphTable, CorpusInfo, str]:
    """Return up to ``graphs`` training graphs and the same number of validation graphs."""
    facts = corpus.table(split="train", columns=["env_id"])
    env = facts.dense("graph", "env_id").astype(np.int64)
    held_out = None
    if VALIDATION not in corpus.splits:
        held_out = _hold_out(corpus, env, facts.num_nodes)
    stream = rng(seed, "recommend", "sample")
    train = np.arange(len(env)) if held_out is None else np.flatnonzero(~held_out.rows)
    tables = [_read_rows(corpus, "train", _draw(train, graphs, stream))]
    if ID_VALIDATION in corpus.splits:
        rows = np.arange(corpus.splits[ID_VALIDATION])
        tables.append(_read_rows(corpus, ID_VALIDATION, _draw(rows, graphs, stream)))
    if held_out is None:
        validation = np.arange(corpus.splits[VALIDATION])
        tables.append(_read_rows(corpus, VALIDATION, _draw(validation, graphs, stream)))
        return concat(tables), corpus.info, f"{VALIDATION} of the corpus"
    rows = _draw(np.flatnonzero(held_out.rows), graphs, stream)
    moved = _read_rows(corpus, "train", rows)
    moved = moved.with_columns(
        graph={
            "split": np.full(len(moved), VALIDATION_CODE, dtype=np.int8),
            "env_id": np.full(len(moved), -1, dtype=np.int32),
        }
    )
    tables, info = _without_environment([*tables, moved], corpus.info, held_out.env, "env_id")
    return concat(tables), info, held_out.description


def _draw(rows: Ints, count: int, stream: np.random.Generator) -> Ints:
    """Return up to ``count`` of the rows, in order."""
    if len(rows) <= count:
        return rows
    return np.sort(stream.choice(rows, size=count, replace=False))


def _read_rows(corpus: Corpus, split: str, rows: Ints) -> GraphTable:
    """Return the graphs at the given positions of a split; one row group is in memory at a time."""
    tables, start = [], 0
    for group in corpus.iter_tables(split=split):
        low, high = np.searchsorted(rows, [start, start + len(group)])
        if high > low:
            tables.append(group.take(rows[low:high] - start))
        start += len(group)
    return concat(tables)


def _hold_out(corpus: Corpus, env: Ints, sizes: Ints) -> HeldOut:
    """Return the training graphs of the environment nearest to the shift.

    That is, for a shift of size, the environment whose graphs are nearest in size to the test
    graphs, and otherwise the last one: the newest, or the last group of scaffolds.
    """
    ids = np.unique(env[env >= 0])
    reason = f"{corpus.info.name} has no `{VALIDATION}` split; "
    if len(ids) < 2:
        count = max(round(HELD_OUT_SHARE * len(sizes)), 1)
        rows = np.zeros(len(sizes), dtype=bool)
        rows[np.argsort(sizes, kind="stable")[-count:]] = True
        description = f"{reason}the {count} largest training graphs are held out"
        return HeldOut(rows, description, None)
    chosen = int(ids[-1])
    if "size" in corpus.info.domain:
        target = _mean_test_size(corpus)
        if target is not None:
            means = [float(sizes[env == number].mean()) for number in ids]
            chosen = int(ids[np.argmin(np.abs(np.array(means) - target))])
    name = corpus.info.environments[chosen].name
    return HeldOut(env == chosen, f"{reason}training environment {chosen} ({name}) is held out",
                   chosen)  # fmt: skip


def _mean_test_size(corpus: Corpus) -> float | None:
    """Return the mean number of nodes of the test graphs; labels are not read."""
    splits = [split for split in ("ood_test",) if split in corpus.splits]
    if not splits:
        return None
    return float(corpus.table(split=splits, columns=["graph_id"]).num_nodes.mean())


def _without_environment(
    tables: list[GraphTable], info: CorpusInfo, env: int | None, column: str
) -> tuple[list[GraphTable], CorpusInfo]:
    """Remove an environment from the description, and renumber those that follow."""
    if env is None:
        return tables, info
    axis = info.column(column).axis
    kept = [entry for entry in info.environments if entry.id != env]
    renumbered = tuple(
        msgspec.structs.replace(entry, id=number) for number, entry in enumerate(kept)
    )

    def renumber(table: GraphTable) -> GraphTable:
        ids = table.dense(axis, column)
        numbers = np.where(ids == env, -1, ids - (ids > env)).astype(ids.dtype)
        values: Mapping[str, Array | Ragged] = {column: numbers}
        return table.with_columns(**{axis: values})

    return [renumber(table) for table in tables], msgspec.structs.replace(
        info, environments=renumbered
    )


def _node_sample(corpus: Corpus) -> tuple[GraphTable, CorpusInfo, str]:
    """Return the whole graph without labels and splits of test nodes."""
    table, info = corpus.table(), corpus.info
    split = table.dense("node", "node_split").astype(np.int64)
    env = table.dense("node", "node_env_id").astype(np.int64)
    y = np.array(table.dense("node", "node_y"))
    description, held_out = f"{VALIDATION} of the corpus", None
    if not (split == VALIDATION_CODE).any():
        train = split == TRAIN_CODE
        ids = np.unique(env[train & (env >= 0)])
        reason = f"{info.name} has no `{VALIDATION}` split; "
        if len(ids) < 2:
            moved = np.flatnonzero(train)
            moved = moved[-max(round(HELD_OUT_SHARE * len(moved)), 1) :]
            description = f"{reason}the last {len(moved)} training nodes are held out"
        else:
            held_out = int(ids[-1])
            moved = np.flatnonzero(train & (env == held_out))
            name = info.environments[held_out].name
            description = f"{reason}training environment {held_out} ({name}) is held out"
        split[moved], env[moved] = VALIDATION_CODE, -1
    used = (split == TRAIN_CODE) | (split == VALIDATION_CODE)
    y[~used] = np.nan
    columns: dict[str, Array] = {
        "node_split": np.where(used, split, SPLITS.index("all")).astype(np.int8),
        "node_env_id": np.where(used, env, -1).astype(np.int32),
        "node_y": y,
    }
    names = [column.name for column in info.columns if column.axis == "node"]
    if "node_label" in names:
        label = np.array(table.dense("node", "node_label"))
        label[~used] = -1
        columns["node_label"] = label
    tables, info = _without_environment(
        [table.with_columns(node=columns)], info, held_out, "node_env_id"
    )
    return tables[0], info, description
