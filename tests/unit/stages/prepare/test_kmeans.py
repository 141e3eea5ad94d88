"""K-means clustering and graph embeddings for inferred environments."""

import numpy as np

from gsx.ragged import pointers
from gsx.schema import Feature
from gsx.seeds import rng
from gsx.stages.prepare.kmeans import embed_graphs, kmeans
from gsx.table import GraphTable


def test_separated_points_form_clusters():
    centers = np.array([[0, 0], [10, 0], [0, 10]])
    truth = np.repeat(np.arange(3), 40)
    points = centers[truth] + rng(0, "tests").normal(size=(120, 2))
    group = kmeans(points, rng(0, "tests", "cluster"))
    assert len({*zip(truth.tolist(), group.tolist(), strict=True)}) == 3
    assert sorted(set(group.tolist())) == [0, 1, 2]
    np.testing.assert_array_equal(group, kmeans(points, rng(0, "tests", "cluster")))


def test_outliers_do_not_form_a_cluster():
    points = np.concatenate([np.arange(100.0), [1e4, -1e4]])[:, None]
    group = kmeans(points, rng(0, "tests"))
    assert np.bincount(group).min() >= 0.05 * len(points)


def test_equal_points_form_one_cluster():
    assert kmeans(np.ones((5, 2)), rng(0, "tests")).tolist() == [0] * 5
    assert kmeans(np.ones((5, 0)), rng(0, "tests")).tolist() == [0] * 5
    assert kmeans(np.ones((0, 2)), rng(0, "tests")).tolist() == []


def graphs(sizes, feat):
    return GraphTable(
        node_ptr=pointers(sizes),
        edge_ptr=np.zeros(len(sizes) + 1, dtype=np.int64),
        node={"node_feat": feat},
        edge={"edge_src": np.zeros(0, np.int32), "edge_dst": np.zeros(0, np.int32)},
    )


def test_embeddings_reflect_size_and_node_features():
    words = (Feature(name="kind", words=("a", "b", "c")),)
    codes = np.array([[0], [0], [1], [2], [0], [0]], dtype=np.uint8)
    embedding = embed_graphs(graphs([2, 2, 2], codes), words)
    assert embedding.points.shape == (3, 5)
    np.testing.assert_allclose(embedding.points[0], embedding.points[2])
    assert np.abs(embedding.points[0] - embedding.points[1]).max() > 0.5
    shares = embedding.variance_between_groups(np.array([0, 1, 0]))
    assert list(shares) == ["kind", "size", "density"]
    assert [round(share, 6) for share in shares.values()] == [1, 0, 0]
    assert 0 < embedding.variance_between_groups(np.array([0, 1, 1]))["kind"] < 1
    plain = embed_graphs(graphs([1, 3, 2], np.ones((6, 40), dtype=np.float32)), ()).points
    assert plain.shape == (3, 16)
    assert len(np.unique(np.round(plain, 6), axis=0)) == 3


def test_unbalanced_features_do_not_prevent_clustering():
    points = np.zeros((60, 2))
    points[0, 0] = -100
    points[:, 1] = np.arange(60) / 1000
    assert np.bincount(kmeans(points, rng(0, "tests"))).tolist() == [30, 30]
