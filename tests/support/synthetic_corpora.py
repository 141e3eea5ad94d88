"""Synthetic corpora with planted features: six depend on the label, six on the environment."""

import msgspec
import numpy as np

from gsx.provenance import source_provenance
from gsx.ragged import Ragged, pointers
from gsx.schema import ORIGINS, SPLITS, CorpusInfo, Environment, corpus_columns
from gsx.seeds import rng
from gsx.storage.artifacts.publish import Identity, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus_writer import plan_shards, write_corpus
from gsx.table import GraphTable

CAUSAL, SPURIOUS = 6, 6
CLASSES, ENVS = 3, 4


def planted_rows(rows, seed=0, *, noise=0.5, binary=False, correlated=0.0):
    """Return features ``[n, 12]``, labels, environments and a mask of spurious features.

    ``correlated`` is the share of rows whose environment depends on the label.
    """
    random = rng(seed, "planted")
    label, env = random.integers(0, CLASSES, rows), random.integers(0, ENVS, rows)
    env = np.where(random.random(rows) < correlated, label % ENVS, env)
    label_means, env_means = (
        random.normal(size=(n, w)) for n, w in ((CLASSES, CAUSAL), (ENVS, SPURIOUS))
    )
    features = np.hstack([label_means[label], env_means[env]])
    features += noise * random.normal(size=features.shape)
    features = (features > 0) if binary else features
    return features.astype(np.float32), label, env, np.arange(CAUSAL + SPURIOUS) >= CAUSAL


def _ring(nodes):
    """Return both directions of the edges of a cycle graph, sorted."""
    node = np.arange(nodes)
    src = np.concatenate([node, (node + 1) % nodes])
    dst = np.concatenate([(node + 1) % nodes, node])
    order = np.lexsort((dst, src))
    return src[order].astype(np.int32), dst[order].astype(np.int32)


def planted_nodes(rows=300, seed=0, *, sparse=False, **options):
    """Return one ring of labelled nodes, two thirds of them for training, and its description."""
    features, label, env, _ = planted_rows(rows, seed, **options)
    split = np.arange(rows) % 6
    names = ("train", "train", "train", "train", "ood_val", "ood_test")
    split = np.array([SPLITS.index(name) for name in names])[split]
    src, dst = _ring(rows)
    if sparse:
        features = np.where(np.abs(features) > 0.7, features, 0)
        row, column = np.nonzero(features)
        ptr = pointers(np.bincount(row, minlength=rows))
        columns = {
            "node_feat_index": Ragged(ptr, column.astype(np.int32)),
            "node_feat_value": Ragged(ptr, features[row, column].astype(np.float32)),
        }
    else:
        columns = {"node_feat": features}
    table = GraphTable(
        node_ptr=pointers([rows]),
        edge_ptr=pointers([len(src)]),
        graph={
            "graph_id": np.array([7]),
            "split": np.array([SPLITS.index("all")], dtype=np.int8),
            "env_id": np.array([-1], dtype=np.int32),
            "domain_id": np.array([-1], dtype=np.int32),
            "origin": np.array([ORIGINS.index("source")], dtype=np.int8),
            **source_provenance(1),
        },
        node={
            **columns,
            "node_y": np.eye(CLASSES, dtype=np.float32)[label],
            "node_label": label.astype(np.int32),
            "node_env_id": np.where(split == 0, env, -1).astype(np.int32),
            "node_domain_id": env.astype(np.int32),
            "node_split": split.astype(np.int8),
        },
        edge={"edge_src": src, "edge_dst": dst},
    )
    return table, _info("node", sparse=sparse)


def planted_graphs(count=300, seed=0, **options):
    """Return rings of three nodes with noisy features of their graph, and their description."""
    features, label, env, _ = planted_rows(count, seed, **options)
    src, dst = _ring(3)
    node_features = np.repeat(features, 3, axis=0)
    if not options.get("binary"):
        noise = rng(seed, "nodes").normal(size=node_features.shape).astype(np.float32)
        node_features = node_features + noise * 0.1
    table = GraphTable(
        node_ptr=np.arange(count + 1) * 3,
        edge_ptr=np.arange(count + 1) * len(src),
        graph={
            "graph_id": np.arange(count),
            "split": np.zeros(count, dtype=np.int8),
            "env_id": env.astype(np.int32),
            "domain_id": env.astype(np.int32),
            "origin": np.zeros(count, dtype=np.int8),
            "y": np.eye(CLASSES, dtype=np.float32)[label],
            "label": label.astype(np.int32),
            **source_provenance(count),
        },
        node={"node_feat": node_features.astype(np.float32)},
        edge={"edge_src": np.tile(src, count), "edge_dst": np.tile(dst, count)},
    )
    return table, _info("graph")


def _info(level, *, sparse=False):
    width = CAUSAL + SPURIOUS
    return CorpusInfo(
        name=f"planted-{level}s",
        level=level,
        outputs=tuple("abc"),
        domain="color",
        environments=tuple(Environment(id=id_, name=f"env {id_}") for id_ in range(ENVS)),
        columns=corpus_columns(outputs=CLASSES, num_features=width, level=level, sparse=sparse),
        num_features=width,
    )


def write_planted(folder, table, info, *, held_out=0, name="planted"):
    """Publish a corpus and return its artifact; the last ``held_out`` graphs are ``ood_test``."""
    split = "all" if info.level == "node" else "train"
    tables = {split: table.slice(0, len(table) - held_out)}
    if held_out:
        test = table.slice(len(table) - held_out, len(table))
        code = np.full(held_out, SPLITS.index("ood_test"), dtype=np.int8)
        no_env = np.full(held_out, -1, dtype=np.int32)
        tables["ood_test"] = test.with_columns(graph={"split": code, "env_id": no_env})

    def produce(draft):
        return write_corpus(
            draft,
            info,
            plan_shards({split: len(graphs) for split, graphs in tables.items()}, 100),
            lambda shard: tables[shard.split].slice(shard.start, shard.stop),
        )

    config = {"name": name, "info": msgspec.to_builtins(info)["name"]}
    identity = Identity(kind="corpus", stage="prepare", stage_version=1, config=config)
    return build_artifact(Store.at(folder), identity, produce).artifact
