"""Build spliced shards: cut and encode components, splice blocks, write files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gsx.errors import StageError
from gsx.ragged import Ints, texts_of
from gsx.schema import CorpusInfo
from gsx.seeds import rng
from gsx.stages.chem.splice_rules import SAMPLE
from gsx.stages.generate.splice import load_inputs as given
from gsx.stages.generate.splice.bridging import JointRules
from gsx.stages.generate.splice.component_pool import (
    Components,
    components_of,
    fragments,
    join_components,
)
from gsx.stages.generate.splice.growth import grow
from gsx.stages.generate.splice.metrics import added, part_quality
from gsx.stages.generate.splice.plan import PlannedShard
from gsx.stages.generate.splice.splicer import Block, Option, Splicer, SpliceRules
from gsx.stages.graphs.wl_hash import Hashes
from gsx.stages.sharded_build import GRAPH_NODES, hashes_path, write_hashes
from gsx.storage.artifacts.draft import Draft
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.corpus_writer import write_shard
from gsx.storage.corpora.link_shards import carry_corpus
from gsx.storage.corpora.parquet import ROW_GROUP
from gsx.table import GraphTable, cut

if TYPE_CHECKING:
    from gsx.stages.generate.stage import GenerateConfig

BLOCK_NODES = 50_000
"""Nodes of one block, about; what one block needs stays in a processor's cache."""
BLOCK_GRAPHS = 1024


def make_splicer(
    config: GenerateConfig,
    source: given.Source,
    info: CorpusInfo,
    option: Option,
    held_out: Hashes,
) -> Splicer:
    """Cut and encode the components of one option."""
    train, rows = source.train, len(source.train)
    lead: Components
    if option == 3:
        lead = components_of(train, None, source.model, source.chemist)
        pool, lead_at = lead, lead.at(rows)
        rest_at = lead_at[None]
    else:
        lead = components_of(train, source.causal, source.model, source.chemist)
        pool, lead_at = lead, lead.at(rows)
        rest_at = np.full((1, rows), -1, dtype=np.int64)
        if option == 2:
            pool, rest_at = _with_environmental(config, source, lead)
    lead_at = np.where(source.labelled, lead_at, -1)
    rest_at = np.where(source.labelled | (option == 2), rest_at, -1)
    _require_sources(config, option, lead_at, rest_at[0], info)
    if config.partners == "same-class" and option != 1:
        _require_classes(source.classes, option, lead_at, rest_at[0], info)
    low, high = config.f
    return Splicer(
        rules=SpliceRules(
            option=option,
            f=(max(low, 2), max(high, 2)) if option == 3 else (low, high),
            partners=config.partners,
            attach=config.attach,
            balanced=config.balanced,
            labels=config.labels,
            joints=JointRules(
                bridges=config.bridges,
                bridge_count=config.bridge_count,
                fixed_attributes=config.attributes == "fixed",
                bridge_nodes=config.bridge_nodes,
                ports=config.ports,
                chords=config.chords,
            ),
            seed=config.seed,
        ),
        info=info,
        components=pool,
        lead_at=lead_at,
        rest_at=rest_at,
        graph_id=source.graph_id,
        y=source.y,
        classes=source.classes,
        model=source.model,
        forbidden=held_out,
        chemist=source.chemist,
    )


def _with_environmental(
    config: GenerateConfig, source: given.Source, lead: Components
) -> tuple[Components, Ints]:
    """Add environmental pieces, and fragments of them, to the causal pieces.

    Also returns the component of every source row, whole pieces first, then fragment by fragment.
    """
    train, rows = source.train, len(source.train)
    keep = source.environmental
    if keep is None:
        raise StageError("option 2 needs the pieces of an extractor")
    pool, found = lead, []
    for level in range(config.fragments + 1):
        if level:
            stream = rng(config.seed, "generate", "fragments", level)
            keep = fragments(train, keep, source.may_cut, stream)
        piece = components_of(
            train, keep, source.model, source.chemist, _growing(config, source, level)
        )
        at = piece.at(rows)
        found.append(np.where(at >= 0, at + len(pool.source), -1))
        pool = join_components(pool, piece)
    whole = found[0]
    return pool, np.stack([np.where(at >= 0, at, whole) for at in found])


def _growing(
    config: GenerateConfig, source: given.Source, level: int
) -> Callable[[GraphTable], GraphTable] | None:
    """Return what makes larger pieces of pieces, or None where they stay as they are."""
    model = source.model
    if not config.grow or model is None:
        return None
    largest = round(config.grow * int(source.train.num_nodes.max(initial=1)))
    stream = rng(config.seed, "generate", "growth", level)
    return lambda pieces: grow(
        pieces,
        model,
        largest,
        stream,
        pairs="random" if config.bridges == "random" else "learned",
        fixed=config.attributes == "fixed",
    )


def spliced_blocks(
    splicer: Splicer, plan: PlannedShard, env_id: int, block_graphs: int
) -> Iterator[tuple[GraphTable, Block]]:
    """Yield the graphs of one shard block by block; any worker may do it, for nothing is read."""
    for number in range(plan.start // block_graphs, -(-plan.stop // block_graphs)):
        first = number * block_graphs
        block = splicer.block(number, min(block_graphs, plan.stop - first))
        count = len(block.table)
        ids = plan.first_id + first - plan.start + np.arange(count, dtype=np.int64)
        env = np.full(count, env_id, dtype=np.int32)
        yield block.table.with_columns(graph={"graph_id": ids, "env_id": env}), block


def block_size(train: GraphTable, config: GenerateConfig) -> int:
    """Return how many graphs one block has: the same for every shard of a config."""
    nodes = _nodes(train, config)
    return int(np.clip(BLOCK_NODES / max(nodes, 1.0), 1, min(BLOCK_GRAPHS, config.shard_graphs)))


def write_spliced(
    config: GenerateConfig,
    draft: Draft,
    plan: PlannedShard,
    info: CorpusInfo,
    splicer: Callable[[], Splicer],
    env_id: int,
    source: given.Source,
) -> dict[str, Any]:
    """Write one shard and the hashes of its graphs, unless they are there; return its facts."""
    name = hashes_path(plan.shard)
    sizes = source.train.num_nodes
    told = source.chemist is not None and plan.start == 0
    hashes: list[Hashes] = []
    refused: Counter[str] = Counter()
    first_refused = 0
    quality: list[dict[str, Any]] = []
    smiles: list[str] = []

    def blocks() -> Iterator[GraphTable]:
        nonlocal first_refused
        size = block_size(source.train, config)
        for table, block in spliced_blocks(splicer(), plan, env_id, size):
            hashes.append(block.hashes)
            refused.update(block.refused)
            first_refused += block.first_refused
            yield table

    def make() -> Iterator[GraphTable]:
        for part in cut(blocks(), ROW_GROUP):  # what is found of few graphs costs as much
            quality.append(part_quality(part, (int(sizes.min()), int(sizes.max())), info.task))
            if told and len(smiles) < SAMPLE:
                first = part.lists("graph", "smiles").slice(0, SAMPLE - len(smiles))
                smiles.extend(texts_of(first))
            yield part

    def more() -> dict[str, Any]:
        write_hashes(draft, name, hashes)
        found = added(quality)
        if told:
            found["molecules"] = given.molecule_report(source.corpus, smiles)
        return {"splice": {**found, "refused": dict(refused), "first_refused": first_refused}}

    if draft.finished(name) is None:
        for form in config.formats:
            draft.forget(plan.shard.path(form))
    return write_shard(draft, plan.shard, info, make, config.formats, more)


def carry_source(
    config: GenerateConfig, draft: Draft, corpus: Corpus, more: int
) -> list[Mapping[str, Any]]:
    """Put the source shards into the draft, among ``more`` of the training split."""
    return [] if config.augmented_only else carry_corpus(draft, corpus, more, config.formats)


def count_of(config: GenerateConfig, training: int) -> int:
    """Return how many graphs every option makes."""
    if config.count is not None:
        return config.count
    return max(round(training * (config.ratio or 1.0)), 1)


def shard_graphs_of(config: GenerateConfig, train: GraphTable) -> int:
    """Return how many graphs a file gets: whole blocks, and not too many nodes."""
    block = block_size(train, config)
    nodes = _nodes(train, config)
    wanted = min(config.shard_graphs, int(GRAPH_NODES / max(nodes, 1.0)))
    return max(wanted // block, 1) * block


def _nodes(train: GraphTable, config: GenerateConfig) -> float:
    """Return about how many nodes a large new graph has."""
    largest = config.grow * float(train.num_nodes.max(initial=1)) / 2
    return max(float(train.num_nodes.mean()), largest) * config.f[1]


def _require_sources(
    config: GenerateConfig, option: Option, lead: Ints, rest: Ints, info: CorpusInfo
) -> None:
    leads, others = int((lead >= 0).sum()), int((rest >= 0).sum())
    if not leads or (option == 2 and not others):
        what = "environmental piece" if leads else "connected component with a label"
        raise StageError(
            f"option {option}: no training graph of {info.name} has a {what}. Leave the option out."
        )
    if config.partners != "same-piece" and option != 1 and config.f[1] > others:
        raise StageError(
            f"option {option}: f of {config.f[1]} needs as many different graphs; {info.name} has "
            f"{others} to splice. Lower f, or use `partners = same-piece`."
        )


def _require_classes(
    classes: Ints, option: Option, lead: Ints, rest: Ints, info: CorpusInfo
) -> None:
    """Refuse leads that have no partner of their class."""
    alone = np.setdiff1d(classes[lead >= 0], classes[rest >= 0])
    if len(alone):
        raise StageError(
            f"option {option}: no training graph of class {int(alone[0])} of {info.name} can be a "
            "partner. Use `partners = any`."
        )


def warnings_of(option: Option, summed: Mapping[str, Any], config: GenerateConfig) -> list[str]:
    """Say what a user should know of an option; refuse graphs that came out in pieces."""
    if summed["disconnected"] and config.bridges != "none":
        raise StageError(f"option {option}: {summed['disconnected']} graphs came out in pieces.")
    share = summed["distinct"] / summed["graphs"]
    if share < 0.5:
        return [
            f"option {option}: {summed['distinct']:,} of {summed['graphs']:,} graphs are distinct; "
            "the rest repeat one of them"
        ]
    return []
