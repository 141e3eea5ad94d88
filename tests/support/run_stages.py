"""Build artifacts for tests by running stages."""

import msgspec
import numpy as np

from gsx.pipeline.plan import Step, make_plan
from gsx.pipeline.recipe import parse_config, parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.pipeline.stage_order import stage_named
from gsx.stages.prepare.synthetic import motif
from gsx.stages.train.trainer import Trainer
from gsx.storage.artifacts.publish import Identity, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus_writer import plan_shards, write_corpus
from gsx.table import GraphTable
from tests.conftest import motif_split


def run_recipe(folder, text):
    """Run a recipe in a store at ``folder`` and return the artifacts by stage."""
    plan = make_plan(parse_recipe(text, "r.toml"))
    return {step.name: built.artifact for step, built in run_plan(plan, Store.at(folder))}


def run_stage(folder, name, options, inputs, **run_options):
    """Run one stage and return its artifact; ``inputs`` maps stage names to artifacts.

    ``run_options`` are those of ``run_plan``, such as ``force`` and ``open_executor``.
    """
    stage = stage_named(name)
    config = parse_config(name, options, "test")
    plan = (Step(stage, config, stage.inputs_of(config)),)
    steps = run_plan(plan, Store.at(folder), artifacts=inputs, **run_options)
    return next(built for _, built in steps).artifact


def write_small_corpus(folder, change, info=None, sizes=None):
    """Write Motif graphs, passed through ``change(table)``, as a corpus artifact."""
    sizes = sizes or {"train": 30, "id_val": 10}

    def produce(draft):
        return write_corpus(
            draft,
            info or motif.corpus_info("motif-size"),
            plan_shards(sizes, 1000),
            lambda shard: change(motif_split(shard.split, shard.start, shard.stop)),
        )

    identity = Identity(
        kind="corpus", stage="prepare", stage_version=1, config={"change": change.__name__}
    )
    return build_artifact(Store.at(folder), identity, produce).artifact


def unchanged(table):
    """Return the table; the identity, for ``write_small_corpus``."""
    return table


def corpora_of_both_levels(folder, sizes):
    """Write a small graph-labelled corpus and a node-labelled one; return both by level."""
    nodes = run_recipe(folder, '[prepare]\ndataset = "cbas-color"\n')["prepare"]
    return {"graph": write_small_corpus(folder, unchanged, sizes=sizes), "node": nodes}


def stop_training(monkeypatch, epoch):
    """Interrupt the next training run in an epoch; return the list of epochs that were begun."""
    plain, begun = Trainer.train_epoch, []

    def stopping(self, number):
        begun.append(number)
        if number == epoch and begun.count(epoch) == 1:
            raise KeyboardInterrupt
        return plain(self, number)

    monkeypatch.setattr(Trainer, "train_epoch", stopping)
    return begun


def without_edges(table):
    """Return the graphs without edges."""
    none = {name: values[:0] for name, values in table.edge.items()}
    return GraphTable(table.node_ptr, np.zeros_like(table.edge_ptr), table.graph, table.node, none)


def corpus_without_edges(folder):
    """Write a corpus of graphs without edges."""
    return write_small_corpus(folder, without_edges)


def attributed_info():
    """Return the description of Motif with edge attributes."""
    from gsx.schema import corpus_columns

    plain = motif.corpus_info("motif-size")
    extras = tuple(
        c for c in plain.columns if c.name in ("node_truth", "basis_id", "motif_id", "width_id")
    )
    columns = corpus_columns(
        outputs=3, num_features=1, edge_features=2, edge_feature_dtype="int8", extras=extras
    )
    return msgspec.structs.replace(plain, name="attributed", columns=columns)


def attributed(table):
    """Add edge attributes: one value for edges inside motifs, another for all other edges."""
    from gsx.stages.graphs.subgraphs import global_edges

    src, dst = global_edges(table)
    truth = table.dense("node", "node_truth") == 1
    both = (truth[src] & truth[dst]).astype(np.int8)
    attr = np.column_stack([both, 1 - both]).astype(np.int8)
    return table.with_columns(edge={"edge_attr": attr})
