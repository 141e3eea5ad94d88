"""Feature extrapolation of graphs, end to end on small planted corpora."""

import json

import msgspec
import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.schema import ORIGINS, Feature
from gsx.seeds import rng
from gsx.stages.graphs.feature_variance import infer_feature_ranges
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.artifacts import gsx as command
from tests.support.run_stages import run_stage
from tests.support.shuffled_executor import open_shuffled
from tests.support.synthetic_corpora import planted_graphs, write_planted

FEATX_ONLY = {"featx": True, "options": "000"}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("featx")
    corpus = write_planted(folder, *planted_graphs(330), held_out=30)
    mask = run_stage(folder, "mask", {"steps": 60}, {"prepare": corpus})
    return {"folder": folder, "prepare": corpus, "mask": mask}


def generate(built, folder=None, **options):
    inputs = {name: built[name] for name in ("prepare", "mask")}
    return run_stage(folder or built["folder"], "generate", {**FEATX_ONLY, **options}, inputs)


def extrapolated_graphs(artifact):
    table = Corpus(artifact).table(split="train")
    return table.filter(table.dense("graph", "origin") == ORIGINS.index("featx"))


def source_rows(table, source):
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    return np.array([row_of[int(id_)] for id_ in table.lists("graph", "provenance.parents").values])


@pytest.fixture(scope="module")
def source(built):
    return Corpus(built["prepare"]).table(split="train")


@pytest.fixture(scope="module")
def extrapolated(built):
    return extrapolated_graphs(generate(built))


def test_every_training_graph_is_extrapolated_once_next_to_the_source(built, source, extrapolated):
    corpus = Corpus(generate(built))
    assert corpus.splits == {"train": 600, "ood_test": 30}
    assert corpus.table(split="train").slice(0, 300).equals(source)
    assert sorted(extrapolated.lists("graph", "provenance.parents").values) == list(range(300))
    assert extrapolated.graph["graph_id"].tolist() == list(range(330, 630))
    assert not verify_artifact(generate(built).location).problems


def test_extrapolated_graphs_form_one_environment_after_those_of_the_source(built, extrapolated):
    rows = Corpus(generate(built)).environments
    assert [(row["id"], row["name"], row["origin"], row["count"]) for row in rows[4:]] == [
        (4, "features extrapolated", "featx", 300)
    ]
    assert (extrapolated.graph["env_id"] == 4).all()
    quality = generate(built).manifest.summary["quality"]["featx"]
    assert quality["graphs"] == 300
    assert quality["of"] == {"source": 300}
    assert quality["extrapolated_features"] == 6
    assert quality["overlap_with_held_out"] == 0


def test_structure_labels_and_other_features_keep_their_bits(source, extrapolated):
    rows = source_rows(extrapolated, source)
    before = source.take(rows)
    assert np.array_equal(before.node_ptr, extrapolated.node_ptr)
    for name in ("edge_src", "edge_dst"):
        assert np.array_equal(before.edge[name], extrapolated.edge[name])
    for name in ("y", "label"):
        assert np.array_equal(before.graph[name], extrapolated.graph[name])
    assert np.array_equal(before.node["node_feat"][:, :6], extrapolated.node["node_feat"][:, :6])
    assert (before.node["node_feat"][:, 6:] != extrapolated.node["node_feat"][:, 6:]).mean() > 0.9


def test_features_follow_the_formula_with_a_node_of_the_partner(built, source, extrapolated):
    """With λ and the partner from provenance, one of the partner's nodes explains all features."""
    rows, partner = (
        source_rows(extrapolated, source),
        extrapolated.graph["provenance.partner"],
    )
    assert (source.graph["label"][rows] == source.graph["label"][partner]).all()
    assert (source.graph["env_id"][rows] != source.graph["env_id"][partner]).all()
    ranges = infer_feature_ranges(source.node["node_feat"])
    low, high = ranges.low[6:], ranges.high[6:]
    for graph in range(0, 300, 17):
        own = source.node["node_feat"][3 * rows[graph] : 3 * rows[graph] + 3, 6:].astype(float)
        stored = extrapolated.node["node_feat"][3 * graph : 3 * graph + 3, 6:]
        errors = []
        for node in range(3 * partner[graph], 3 * partner[graph] + 3):
            other = source.node["node_feat"][node, 6:].astype(float)
            value = own + float(extrapolated.graph["provenance.lambda"][graph]) * (own - other)
            inside = (value >= low) & (value <= high)
            wrapped = np.where(inside, value, low + np.mod(value - low, high - low))
            errors.append(np.abs(wrapped - stored).max())
        assert min(errors) < 1e-4
        assert max(errors) > 1e-3


def test_strengths_follow_the_gamma_distribution(built):
    table = extrapolated_graphs(generate(built, ratio=4.0, featx_shape=9.0, featx_scale=2.0))
    strength = table.graph["provenance.lambda"]
    assert strength.mean() == pytest.approx(18, rel=0.05)
    assert strength.var() == pytest.approx(36, rel=0.15)


def test_interpolated_features_are_between_both_graphs(built, source):
    table = extrapolated_graphs(generate(built, featx_direction="interpolate"))
    strength = table.graph["provenance.lambda"]
    assert (strength <= 0).all()
    assert (strength >= -1).all()
    rows, partner = source_rows(table, source), table.graph["provenance.partner"]
    own = source.node["node_feat"].reshape(-1, 3, 12)
    low = np.minimum(own[rows].min(axis=1), own[partner].min(axis=1))
    high = np.maximum(own[rows].max(axis=1), own[partner].max(axis=1))
    features = table.node["node_feat"].reshape(-1, 3, 12)
    assert ((features >= low[:, None] - 1e-5) & (features <= high[:, None] + 1e-5)).all()
    environment = Corpus(generate(built, featx_direction="interpolate")).environments[-1]
    assert environment["name"] == "features interpolated"


def test_rank_matching_and_reflection_change_features_only(built, source, extrapolated):
    """Each node is extrapolated from the partner's node of equal rank, and values are reflected."""
    table = extrapolated_graphs(generate(built, featx_partner="ranked", featx_ends="mirror"))
    for name in ("provenance.lambda", "provenance.partner", "y", "env_id"):
        assert np.array_equal(table.graph[name], extrapolated.graph[name])
    rows, partner = source_rows(table, source), table.graph["provenance.partner"]
    ranges = infer_feature_ranges(source.node["node_feat"])
    low, high = ranges.low[6:], ranges.high[6:]
    for graph in range(0, 300, 17):
        own, other = (
            source.node["node_feat"][3 * row : 3 * row + 3, 6:].astype(float)
            for row in (rows[graph], partner[graph])
        )
        ranks = [((features - low) / (high - low)).sum(axis=1).argsort().argsort()
                 for features in (own, other)]  # fmt: skip
        matched = other[[ranks[1].tolist().index(rank) for rank in ranks[0]]]
        value = own + float(table.graph["provenance.lambda"][graph]) * (own - matched) - low
        remainder = np.mod(value, 2 * (high - low))
        expected = low + np.minimum(remainder, 2 * (high - low) - remainder)
        stored = table.node["node_feat"][3 * graph : 3 * graph + 3, 6:]
        assert stored == pytest.approx(expected, abs=1e-4)


def test_option_all_extrapolates_every_feature(built, source):
    table = extrapolated_graphs(generate(built, featx_features="all"))
    before = source.take(source_rows(table, source))
    assert ((before.node["node_feat"] != table.node["node_feat"]).mean(axis=0) > 0.9).all()


def test_same_config_gives_the_same_graphs_for_any_shard_size(built, tmp_path, monkeypatch):
    monkeypatch.setattr("gsx.stages.generate.featx.build.BLOCK_GRAPHS", 512)
    first, second = (generate(built, tmp_path / name, ratio=8.0) for name in "ab")
    assert first.manifest.digest == second.manifest.digest
    sharded = generate(built, tmp_path / "c", ratio=8.0, shard_graphs=600)
    assert len([name for name in sharded.manifest.files if "data/train" in name]) == 3 + 5
    large_shards, small_shards = (
        Corpus(artifact).table(split="train") for artifact in (first, sharded)
    )
    assert large_shards.equals(small_shards)


@pytest.mark.parametrize(("ratio", "expected"), [(0.5, 150), (2.5, 750)])
def test_ratio_repeats_graphs_equally_often(built, ratio, expected):
    parents = (
        extrapolated_graphs(generate(built, ratio=ratio))
        .lists("graph", "provenance.parents")
        .values
    )
    assert len(parents) == expected
    counts = np.bincount(parents, minlength=300)
    assert set(counts) == {int(ratio), int(ratio) + 1}


def test_augmented_only_leaves_the_source_out(built):
    corpus = Corpus(generate(built, augmented_only=True, count=40))
    assert corpus.splits == {"train": 40}


@pytest.fixture(scope="module")
def both(built):
    options = {"options": "001", "bridges": "none", "f": (2, 3), "ratio": 0.5}
    return generate(built, **options)


def test_spliced_graphs_are_extrapolated_too(both, source):
    corpus = Corpus(both)
    assert [(row["id"], row["origin"], row["count"]) for row in corpus.environments[4:]] == [
        (4, "g_whole", 150), (5, "featx", 300),
    ]  # fmt: skip
    assert both.manifest.summary["quality"]["featx"]["of"] == {"source": 150, "g_whole": 150}
    assert not verify_artifact(both.location).problems
    table = corpus.table(split="train")
    extrapolated = table.filter(table.dense("graph", "origin") == ORIGINS.index("featx"))
    assert table.graph["graph_id"].tolist()[300:] == list(range(330, 330 + 150 + 300))
    rows = source_rows(extrapolated, table)
    before = table.take(rows)
    assert np.array_equal(before.graph["y"], extrapolated.graph["y"])
    assert np.array_equal(before.node["node_feat"][:, :6], extrapolated.node["node_feat"][:, :6])
    assert np.array_equal(before.edge["edge_src"], extrapolated.edge["edge_src"])
    spliced = before.graph["origin"] == ORIGINS.index("g_whole")
    assert spliced.sum() == 150
    partner = source_rows_of(extrapolated.graph["provenance.partner"], source)
    weight = extrapolated.graph["y"][np.arange(len(extrapolated)), source.graph["label"][partner]]
    assert (weight > 0).all()


def source_rows_of(ids, source):
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    return np.array([row_of[int(id_)] for id_ in ids])


def test_spliced_graphs_are_the_same_with_and_without_featx(built, both):
    options = {"options": "001", "bridges": "none", "f": (2, 3), "ratio": 0.5, "featx": False}
    without = Corpus(generate(built, **options)).table(split="train")
    combined = Corpus(both).table(split="train").slice(0, 450)
    assert without.equals(combined)


def test_no_extrapolated_graph_equals_a_held_out_graph(tmp_path):
    """With binary colors on one structure, many draws equal held-out graphs and are redrawn."""
    table, info = planted_graphs(300, binary=True)
    features = np.array(table.dense("node", "node_feat"))
    features[:, :10] = 0
    features[:, 0] = np.repeat(table.graph["label"], 3)
    table = table.with_columns(node={"node_feat": features})
    corpus = write_planted(tmp_path, table, info, held_out=3)
    mask = run_stage(tmp_path, "mask", {"steps": 20}, {"prepare": corpus})
    built = {"folder": tmp_path, "prepare": corpus, "mask": mask}
    artifact = generate(built)
    quality = artifact.manifest.summary["quality"]["featx"]
    held_out = wl_hashes(Corpus(corpus).table(split="ood_test"))
    assert not np.isin(wl_hashes(extrapolated_graphs(artifact)), held_out).any()
    assert quality["overlap_with_held_out"] == 0
    assert quality["rejected"]["held-out graph"] > 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["6, selected by the mask", "away from a partner (extrapolation)",
              "λ ~ Gamma(2, 0.5), 1 on average"]),
        ({"featx_features": "all", "featx_direction": "interpolate", "featx_rounds": 3},
         ["12, all varying features", "towards a partner (interpolation)",
          "λ uniform between 0 and 1", "<td>partners per sample</td><td>3</td>"]),
        ({"featx_shape": 9.0, "featx_scale": 2.0}, ["λ ~ Gamma(9, 2), 18 on average"]),
    ],
)  # fmt: skip
def test_report_describes_the_extrapolation(built, tmp_path, options, expected):
    artifact = generate(built, **options)
    page = tmp_path / "page.html"
    command("report", artifact.key[:12], "--out", page, "--store", built["folder"])
    shown = page.read_text()
    assert "300 graphs (source 300)" in shown
    assert "6 of 12 features of planted-graphs are non-causal" in shown
    assert not [text for text in expected if text not in shown]


def test_categorical_features_stay_categorical(tmp_path):
    """Extrapolated codes of categories, as in TU files, are codes of the vocabulary."""
    table, info = planted_graphs(300)
    random = rng(0, "words")
    env, label = (np.repeat(table.graph[name], 3) for name in ("env_id", "label"))
    color = (env + random.integers(0, 2, len(env))) % 5
    codes = np.column_stack([label * 2 + random.integers(0, 2, len(env)), color]).astype(np.uint8)
    words = (
        Feature(name="kind", words=tuple("abcdefg")),
        Feature(name="color", words=tuple("pqrstu")),  # `u` is in no training graph
    )
    columns = tuple(
        msgspec.structs.replace(column, dtype="uint8", width=2, features=words)
        if column.name == "node_feat"
        else column
        for column in info.columns
    )
    info = msgspec.structs.replace(info, columns=columns, num_features=2)
    corpus = write_planted(tmp_path, table.with_columns(node={"node_feat": codes}), info)
    mask = run_stage(tmp_path, "mask", {"steps": 60}, {"prepare": corpus})
    built = {"folder": tmp_path, "prepare": corpus, "mask": mask}
    assert (
        "non-causal: they depend on the environment and not on the label (color); 1 kept."
        in (mask.manifest.summary["description"])
    )
    features = extrapolated_graphs(generate(built, ratio=3.0)).node["node_feat"]
    assert features.dtype == np.uint8
    assert set(features[:, 1]) == set(range(6))
    assert np.array_equal(features[:, 0], np.tile(codes[:, 0], 3))
    all_features = extrapolated_graphs(generate(built, featx_features="all")).node["node_feat"]
    assert all_features.max(axis=0).tolist() == [6, 5]


# Errors


def test_mask_with_other_features_is_rejected(built, tmp_path):
    other = run_stage(tmp_path, "prepare", {"dataset": "fsmotif-size-color", "num_graphs": 100}, {})
    with pytest.raises(UsageError) as error:
        generate({**built, "prepare": other}, tmp_path)
    assert str(error.value) == (
        f"mask {built['mask'].key[:12]} has 12 features; fsmotif-size-color has 3. Train one on "
        "it: `gsx pretrain mask`."
    )


def test_mask_of_another_dataset_is_rejected(built, tmp_path):
    table, info = planted_graphs(60)
    info = msgspec.structs.replace(info, name="others")
    corpus = write_planted(tmp_path, table, info)
    with pytest.raises(UsageError) as error:
        generate({**built, "prepare": corpus}, tmp_path)
    assert str(error.value) == (
        f"mask {built['mask'].key[:12]} was trained on planted-graphs, not on others. Train one on "
        "it: `gsx pretrain mask`."
    )


def test_mask_without_selected_features_is_rejected(tmp_path):
    table, info = planted_graphs(600)
    features = np.tile(table.dense("node", "node_feat")[:, :6], 2)
    corpus = write_planted(tmp_path, table.with_columns(node={"node_feat": features}), info)
    mask = run_stage(tmp_path, "mask", {}, {"prepare": corpus})
    built = {"folder": tmp_path, "prepare": corpus, "mask": mask}
    with pytest.raises(StageError) as error:
        generate(built)
    assert str(error.value) == (
        f"nothing to extrapolate: mask {mask.key[:12]} selects no feature of planted-graphs. "
        "Extrapolate all of them with `--featx-features all`, or leave FeatX out."
    )
    assert len(extrapolated_graphs(generate(built, featx_features="all"))) == 600


def test_graphs_without_partners_are_rejected(built, tmp_path):
    table, info = planted_graphs(60)
    env = table.graph["label"].astype(np.int32)
    corpus = write_planted(tmp_path, table.with_columns(graph={"env_id": env}), info)
    with pytest.raises(StageError) as error:
        generate({**built, "prepare": corpus}, tmp_path)
    assert str(error.value) == (
        "nothing to extrapolate: no training graph of planted-graphs has a partner with its label "
        "in another environment. Prepare the corpus with environments."
    )
    assert not [path for path in (tmp_path / "corpus").iterdir() if corpus.key[:32] != path.name]


def test_command_trains_a_mask_and_extrapolates_features(built, tmp_path):
    key = built["prepare"].key[:12]
    store = ("--store", built["folder"])
    done = command("generate", key, "--featx", "--count", 50, "--json", *store)
    output = json.loads(done.out)
    assert [step["step"] for step in output["steps"]] == ["mask", "generate"]
    assert output["counts"] == {"train": 350, "ood_test": 30}
    with_mask = command("generate", key, "--featx", "--mask", built["mask"].key[:12],
                        "--featx-direction", "interpolate", "--json", *store)  # fmt: skip
    assert [step["step"] for step in json.loads(with_mask.out)["steps"]] == ["generate"]
    repeated = command("generate", key, "--featx", "--options", "000", "--replicas", 3, *store)
    assert repeated.code == 2
    assert "has graph labels; replicas are for labelled nodes. Set the number of graphs" in (
        repeated.err
    )
    lonely = command("generate", key, "--featx-features", "all", *store)
    assert lonely.code == 2
    assert "--featx-features applies to feature extrapolation; add --featx" in lonely.err
    alone = command("generate", key, "--domain", "0..1", *store)
    assert alone.code == 2
    assert "--feature-range applies to feature extrapolation; add --featx" in alone.err
    both = command("generate", key, "--featx", "--mask", "abc", "--domain", "0..1", *store)
    assert both.code == 2
    assert "--mask and --feature-range exclude each other" in both.err
    wider = command(
        "generate", key, "--featx", "--count", 9, "--domain", "-90..90", "--json", *store
    )
    steps = {step["step"]: step["key"] for step in json.loads(wider.out)["steps"]}
    learned = command("show", steps["mask"], "--json", *store)
    assert json.loads(learned.out)["summary"]["feature_ranges"] == ["-90..90"]
    unused = command("generate", key, "--options", "001", "--mask", built["mask"].key[:12], *store)
    assert "--mask has no effect with these options; leave it out" in unused.err
    shown = command("show", output["key"], *store)
    assert "extrapolated: 50 graphs (source 50), 6 features" in shown.out


def test_manifests_without_featx_leave_its_options_out(built):
    config = {"options": "001", "bridges": "none", "featx": False}
    plain = generate(built, **config)
    assert not {name for name in plain.manifest.config if "featx" in name or name == "replicas"}


@pytest.mark.parametrize(("options", "count"), [("000", 2500), ("001", 90)])
def test_order_of_shards_changes_no_byte(built, tmp_path, options, count):
    """Spliced shards with their extrapolated counterparts, and shards of source graphs."""
    inputs = {name: built[name] for name in ("prepare", "mask")}
    config = {"featx": True, "options": options, "count": count, "shard_graphs": 30,
              "bridges": "none"}  # fmt: skip
    in_order = run_stage(built["folder"], "generate", config, inputs)
    executor = open_shuffled([*reversed(range(200)), 2], tmp_path)
    shuffled = run_stage(
        built["folder"], "generate", config, inputs, open_executor=executor, force=True
    )
    assert shuffled.manifest.files == in_order.manifest.files
    assert sum("hashes/" in name for name in shuffled.manifest.files) > 3
