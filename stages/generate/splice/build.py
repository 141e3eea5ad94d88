"""Build spliced shards: cut and encode components, splice blocks, write files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Array, Ints, decode_texts
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.augmented.label_rules import size_slope
from gsx.stages.augmented.shards import graphs_per_shard, write_shard_with_hashes
from gsx.stages.chem.splice_rules import SAMPLED_MOLECULES
from gsx.stages.generate.config import GenerateConfig, Option
from gsx.stages.generate.splice.bridging import BridgeParameters
from gsx.stages.generate.splice.component_pool import (
    ComponentPool,
    build_component_pool,
    concat_pools,
    cut_fragments,
)
from gsx.stages.generate.splice.growth import grow_subgraphs
from gsx.stages.generate.splice.label_conflicts import label_causal_subgraphs
from gsx.stages.generate.splice.load_inputs import SpliceInputs, compare_molecules
from gsx.stages.generate.splice.metrics import graph_sums, merge_sums
from gsx.stages.generate.splice.plan import SplicedShard
from gsx.stages.generate.splice.splicer import SplicedBlock, SpliceParameters, Splicer
from gsx.stages.graphs.wl_hash import Hashes, labelled_hashes
from gsx.stages.sharded_build import GRAPH_NODES
from gsx.storage.artifacts.draft import Draft
from gsx.storage.corpora.parquet import ROW_GROUP
from gsx.table import GraphTable, rechunk

BLOCK_NODES = 50_000
"""Approximate nodes of one block; a block's working set fits in the processor cache."""
BLOCK_GRAPHS = 1024


def build_splicer(
    config: GenerateConfig,
    inputs: SpliceInputs,
    info: CorpusInfo,
    option: Option,
    held_out: Hashes,
    causal: ComponentPool | None = None,
) -> Splicer:
    """Cut and encode the components of one option.

    ``causal`` is the pool of causal subgraphs if it exists already.
    """
    if option != 3:
        inputs = inputs.with_samples()
    train, rows = inputs.train, len(inputs.train)
    lead: ComponentPool
    if option == 3:
        lead = build_component_pool(train, None, inputs.bridge_source, molecules=inputs.molecules)
        pool, lead_component = lead, lead.by_source_row(rows)
        other_components = lead_component[None]
    else:
        source = inputs.bridge_source if 2 in config.enabled else None
        lead = causal or build_component_pool(
            train, inputs.causal, source, molecules=inputs.molecules
        )
        pool, lead_component = lead, lead.by_source_row(rows)
        other_components = np.full((1, rows), -1, dtype=np.int64)
        if option == 2:
            pool, other_components = _add_environmental(config, inputs, lead)
    lead_component = np.where(inputs.labelled, lead_component, -1)
    other_components = np.where(inputs.labelled | (option == 2), other_components, -1)
    y, causal_subgraphs = inputs.y, None
    rule = config.labels
    if option == 1:
        if rule == "size-scaled":  # before equal subgraphs are merged
            y, rule = _scaled_labels(inputs, pool.table.num_nodes, lead_component), "average"
        labels = label_causal_subgraphs(
            pool,
            lead_component,
            train,
            y,
            inputs.labelled,
            config.label_conflicts,
            config.min_causal_nodes,
        )
        lead_component = np.where(labels.usable, lead_component, -1)
        y, causal_subgraphs = labels.y, labels.counts
    elif option == config.enabled[0] == 2:
        causal_subgraphs = label_causal_subgraphs(
            lead, lead_component, train, y, inputs.labelled, "keep", config.min_causal_nodes
        ).counts
    _require_sources(config, option, lead_component, other_components[0], info)
    if config.partners == "same-class" and option != 1:
        _require_classes(inputs.classes, option, lead_component, other_components[0], info)
    low, high = config.f
    return Splicer(
        parameters=SpliceParameters(
            option=option,
            f=(max(low, 2), max(high, 2)) if option == 3 else (low, high),
            partners=config.partners,
            attach=config.attach,
            balanced=config.balanced,
            labels=rule,
            bridging=BridgeParameters(
                bridges=config.bridges,
                bridge_count=config.bridge_count,
                fixed_attributes=config.attributes == "fixed",
                bridge_nodes=config.bridge_nodes,
                ports=config.ports,
                random_edges=config.chords,
            ),
            seed=config.seed,
        ),
        info=info,
        pool=pool,
        lead_component=lead_component,
        other_components=other_components,
        graph_id=inputs.graph_id,
        y=y,
        source_nodes=train.num_nodes,
        classes=inputs.classes,
        bridge_source=inputs.bridge_source,
        forbidden=held_out,
        molecules=inputs.molecules,
        causal_subgraphs=causal_subgraphs,
    )


def _scaled_labels(inputs: SpliceInputs, nodes: Ints, component: Ints) -> Array:
    """Return the labels of source graphs, moved along the trend to the sizes of components."""
    slope = size_slope(inputs.train.num_nodes, inputs.y)
    smaller = np.where(component >= 0, nodes[component] - inputs.train.num_nodes, 0)
    return np.asarray(inputs.y + slope * smaller[:, None], dtype=np.float32)


def _add_environmental(
    config: GenerateConfig, inputs: SpliceInputs, causal: ComponentPool
) -> tuple[ComponentPool, Ints]:
    """Add environmental subgraphs and their fragments to a pool of causal subgraphs.

    Also returns ``[1 + fragments, R]``: per source row the whole environmental subgraph, then its
    fragments. A fragment that is no component is replaced by the whole subgraph.
    """
    train, rows = inputs.train, len(inputs.train)
    keep = inputs.environmental
    if keep is None:
        raise StageError(
            "option 2 needs environmental subgraphs. Add an extractor: `gsx pretrain extract`."
        )
    pool, by_level = causal, []
    for level in range(config.fragments + 1):
        if level:
            stream = rng(config.seed, "generate", "fragments", level)
            keep = cut_fragments(train, keep, inputs.cuttable, stream)
        environmental = build_component_pool(
            train,
            keep,
            inputs.bridge_source,
            molecules=inputs.molecules,
            grow=_growth(config, inputs, level),
        )
        component = environmental.by_source_row(rows)
        by_level.append(np.where(component >= 0, component + len(pool.source), -1))
        pool = concat_pools(pool, environmental)
    whole = by_level[0]
    return pool, np.stack([np.where(level >= 0, level, whole) for level in by_level])


def _growth(
    config: GenerateConfig, inputs: SpliceInputs, level: int
) -> Callable[[GraphTable], GraphTable] | None:
    """Return the function that enlarges environmental subgraphs; None without growth."""
    source = inputs.bridge_source
    if not config.grow or source is None:
        return None
    max_nodes = round(config.grow * int(inputs.train.num_nodes.max(initial=1)))
    stream = rng(config.seed, "generate", "growth", level)
    return lambda subgraphs: grow_subgraphs(
        subgraphs, source, max_nodes, stream, fixed=config.attributes == "fixed"
    )


def spliced_blocks(
    splicer: Splicer, plan: SplicedShard, env_id: int, block_graphs: int
) -> Iterator[tuple[GraphTable, SplicedBlock]]:
    """Yield the graphs of one shard block by block; depends on the arguments only."""
    for number in range(plan.start // block_graphs, -(-plan.stop // block_graphs)):
        first = number * block_graphs
        block = splicer.block(number, min(block_graphs, plan.stop - first))
        count = len(block.table)
        ids = plan.first_id + first - plan.start + np.arange(count, dtype=np.int64)
        env = np.full(count, env_id, dtype=np.int32)
        yield block.table.with_columns(graph={"graph_id": ids, "env_id": env}), block


def graphs_per_block(train: GraphTable, config: GenerateConfig) -> int:
    """Return the size of a block in graphs, the same for all shards of a config."""
    nodes = _nodes_per_graph(train, config)
    return int(np.clip(BLOCK_NODES / max(nodes, 1.0), 1, min(BLOCK_GRAPHS, config.shard_graphs)))


def write_spliced_shard(
    config: GenerateConfig,
    draft: Draft,
    plan: SplicedShard,
    info: CorpusInfo,
    get_splicer: Callable[[], Splicer],
    env_id: int,
    inputs: SpliceInputs,
) -> dict[str, Any]:
    """Write one shard and the hashes of its graphs, unless both exist; return its statistics.

    Molecules of an option's first shard are also compared with the source molecules.
    """
    train_nodes = inputs.train.num_nodes
    sample_molecules = inputs.molecules and plan.start == 0
    hashes: list[Hashes] = []
    labelled: list[Hashes] = []
    rejected: Counter[str] = Counter()
    rejected_at_first = 0
    sums: list[dict[str, Any]] = []
    smiles: list[str] = []

    def blocks() -> Iterator[GraphTable]:
        nonlocal rejected_at_first
        size = graphs_per_block(inputs.train, config)
        for table, block in spliced_blocks(get_splicer(), plan, env_id, size):
            hashes.append(block.hashes)
            labelled.append(labelled_hashes(block.hashes, table.dense("graph", "y")))
            rejected.update(block.rejected)
            rejected_at_first += block.rejected_at_first
            yield table

    def tables() -> Iterator[GraphTable]:
        # Metrics are computed per row group: their cost per call does not depend on the size.
        for table in rechunk(blocks(), ROW_GROUP):
            sizes = (int(train_nodes.min()), int(train_nodes.max()))
            sums.append(graph_sums(table, sizes, info.task))
            if sample_molecules and len(smiles) < SAMPLED_MOLECULES:
                first = table.lists("graph", "smiles").slice(0, SAMPLED_MOLECULES - len(smiles))
                smiles.extend(decode_texts(first))
            yield table

    def stats() -> dict[str, Any]:
        merged = merge_sums(sums)
        if sample_molecules:
            merged["molecules"] = {
                **compare_molecules(inputs.corpus, smiles),
                "components_left_out": get_splicer().pool.not_molecules,
            }
        if plan.start == 0 and plan.option != 3 and plan.option == config.enabled[0]:
            merged["causal_subgraphs"] = get_splicer().causal_subgraphs
        counts = {"rejected": dict(rejected), "first_rejected": rejected_at_first}
        return {"splice": {**merged, **counts}}

    return write_shard_with_hashes(
        draft, plan.shard, info, tables, hashes, config.formats, stats, labelled
    )


def graphs_per_spliced_shard(config: GenerateConfig, train: GraphTable) -> int:
    """Return the size of a shard in graphs: whole blocks within the node limit."""
    block = graphs_per_block(train, config)
    nodes = _nodes_per_graph(train, config)
    return graphs_per_shard(config.shard_graphs, GRAPH_NODES, nodes, block)


def _nodes_per_graph(train: GraphTable, config: GenerateConfig) -> float:
    """Return an estimate of the nodes of a large spliced graph."""
    grown = config.grow * float(train.num_nodes.max(initial=1)) / 2
    return max(float(train.num_nodes.mean()), grown) * config.f[1]


def _require_sources(
    config: GenerateConfig, option: Option, lead: Ints, others: Ints, info: CorpusInfo
) -> None:
    """Require enough lead components and partners; -1 marks source rows without a component."""
    leads, partners = int((lead >= 0).sum()), int((others >= 0).sum())
    if not leads or (option == 2 and not partners):
        what = "an environmental subgraph" if leads else "a connected component with a label"
        if option == 1:
            what = f"a usable causal subgraph of at least {config.min_causal_nodes} nodes"
        raise StageError(
            f"option {option}: no training graph of {info.name} has {what}. Leave the option out"
            + (", or lower `min_causal_nodes`." if option == 1 else ".")
        )
    if config.partners != "same-component" and option != 1 and config.f[1] > partners:
        raise StageError(
            f"option {option}: f of {config.f[1]} needs that many different graphs, and "
            f"{info.name} has {partners} to splice. Lower f, or use `partners = same-component`."
        )


def _require_classes(
    classes: Ints, option: Option, lead: Ints, others: Ints, info: CorpusInfo
) -> None:
    """Require a partner of the same class for every lead component."""
    alone = np.setdiff1d(classes[lead >= 0], classes[others >= 0])
    if len(alone):
        raise StageError(
            f"option {option}: no training graph of class {int(alone[0])} of {info.name} can be a "
            "partner. Use `partners = any`."
        )


def splice_warnings(
    option: Option, quality: Mapping[str, Any], config: GenerateConfig
) -> list[str]:
    """Return warnings about an option; raise if graphs are disconnected despite bridges."""
    if quality["disconnected"] and config.bridges != "none":
        raise StageError(
            f"option {option}: {quality['disconnected']} spliced graphs are disconnected. Use "
            "`bridges = random`, and report this as a bug."
        )
    share = quality["distinct"] / quality["graphs"]
    if share < 0.5:
        return [
            f"option {option}: only {quality['distinct']:,} of {quality['graphs']:,} graphs are "
            "distinct; the rest repeat one of them. Lower `--count` or `--ratio`, or leave the "
            "option out of `--options`."
        ]
    return []
