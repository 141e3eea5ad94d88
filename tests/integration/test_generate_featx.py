"""Corpora with moved features, generated for real from small planted corpora."""

import contextlib
import json

import msgspec
import numpy as np
import pytest

from gsx.errors import StageError, UsageError
from gsx.schema import ORIGINS, Feature
from gsx.seeds import rng
from gsx.stages.generate.stage import GenerateConfig, resolve
from gsx.stages.graphs.feature_variance import infer_domains
from gsx.stages.graphs.wl_hash import wl_hashes
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.corpora.verify_corpus import audit
from tests.support.artifacts import gsx as command
from tests.support.run_stages import run_stage
from tests.support.synthetic_corpora import planted_graphs, write_planted

ALONE = {"featx": True, "options": "000"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("featx")
    corpus = write_planted(folder, *planted_graphs(330), held_out=30)
    mask = run_stage(folder, "mask", {"steps": 60}, {"prepare": corpus})
    return {"folder": folder, "prepare": corpus, "mask": mask}


def generate(made, folder=None, **options):
    given = {name: made[name] for name in ("prepare", "mask")}
    return run_stage(folder or made["folder"], "generate", {**ALONE, **options}, given)


def moved_graphs(artifact):
    table = Corpus(artifact).table(split="train")
    return table.filter(table.dense("graph", "origin") == ORIGINS.index("featx"))


def source_rows(table, source):
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    return np.array([row_of[int(id_)] for id_ in table.lists("graph", "provenance.parents").values])


@pytest.fixture(scope="module")
def source(made):
    return Corpus(made["prepare"]).table(split="train")


@pytest.fixture(scope="module")
def moved(made):
    return moved_graphs(generate(made))


def test_every_training_graph_is_moved_once_and_the_source_is_there_too(made, source, moved):
    corpus = Corpus(generate(made))
    assert corpus.splits == {"train": 600, "ood_test": 30}
    assert corpus.table(split="train").slice(0, 300).equals(source)
    assert sorted(moved.lists("graph", "provenance.parents").values) == list(range(300))
    assert moved.graph["graph_id"].tolist() == list(range(330, 630))
    assert not audit(generate(made).place).problems


def test_moved_graphs_form_one_environment_after_those_of_the_source(made, moved):
    rows = Corpus(generate(made)).environments
    assert [(row["id"], row["name"], row["origin"], row["count"]) for row in rows[4:]] == [
        (4, "features extrapolated", "featx", 300)
    ]
    assert (moved.graph["env_id"] == 4).all()
    quality = generate(made).manifest.summary["quality"]["featx"]
    assert quality["graphs"] == 300
    assert quality["of"] == {"source": 300}
    assert quality["moved_features"] == 6
    assert quality["overlap_with_held_out"] == 0


def test_structure_labels_and_other_features_keep_their_bits(source, moved):
    rows = source_rows(moved, source)
    before = source.take(rows)
    assert np.array_equal(before.node_ptr, moved.node_ptr)
    for name in ("edge_src", "edge_dst"):
        assert np.array_equal(before.edge[name], moved.edge[name])
    for name in ("y", "label"):
        assert np.array_equal(before.graph[name], moved.graph[name])
    assert np.array_equal(before.node["node_feat"][:, :6], moved.node["node_feat"][:, :6])
    assert (before.node["node_feat"][:, 6:] != moved.node["node_feat"][:, 6:]).mean() > 0.9


def test_features_are_those_of_the_formula_with_a_node_of_the_partner(made, source, moved):
    """λ and the partner are in the provenance; one of the partner's nodes must explain all."""
    rows, partner = (
        source_rows(moved, source),
        moved.graph["provenance.partner"],
    )
    assert (source.graph["label"][rows] == source.graph["label"][partner]).all()
    assert (source.graph["env_id"][rows] != source.graph["env_id"][partner]).all()
    domains = infer_domains(source.node["node_feat"])
    low, high = domains.low[6:], domains.high[6:]
    for graph in range(0, 300, 17):
        own = source.node["node_feat"][3 * rows[graph] : 3 * rows[graph] + 3, 6:].astype(float)
        found = moved.node["node_feat"][3 * graph : 3 * graph + 3, 6:]
        fits = []
        for node in range(3 * partner[graph], 3 * partner[graph] + 3):
            other = source.node["node_feat"][node, 6:].astype(float)
            far = own + float(moved.graph["provenance.lambda"][graph]) * (own - other)
            inside = (far >= low) & (far <= high)
            wrapped = np.where(inside, far, low + np.mod(far - low, high - low))
            fits.append(np.abs(wrapped - found).max())
        assert min(fits) < 1e-4
        assert max(fits) > 1e-3


def test_strengths_follow_the_gamma_distribution(made):
    table = moved_graphs(generate(made, ratio=4.0, featx_shape=9.0, featx_scale=2.0))
    strength = table.graph["provenance.lambda"]
    assert strength.mean() == pytest.approx(18, rel=0.05)
    assert strength.var() == pytest.approx(36, rel=0.15)


def test_interpolation_stays_between_the_two(made, source):
    table = moved_graphs(generate(made, featx_direction="interpolate"))
    strength = table.graph["provenance.lambda"]
    assert (strength <= 0).all()
    assert (strength >= -1).all()
    rows, partner = source_rows(table, source), table.graph["provenance.partner"]
    own = source.node["node_feat"].reshape(-1, 3, 12)
    low = np.minimum(own[rows].min(axis=1), own[partner].min(axis=1))
    high = np.maximum(own[rows].max(axis=1), own[partner].max(axis=1))
    found = table.node["node_feat"].reshape(-1, 3, 12)
    assert ((found >= low[:, None] - 1e-5) & (found <= high[:, None] + 1e-5)).all()
    environment = Corpus(generate(made, featx_direction="interpolate")).environments[-1]
    assert environment["name"] == "features interpolated"


def test_ranks_and_mirrors_change_features_and_nothing_else(made, source, moved):
    """Each node goes away from the partner's node of equal rank, and comes back from the ends."""
    table = moved_graphs(generate(made, featx_partner="ranked", featx_ends="mirror"))
    for name in ("provenance.lambda", "provenance.partner", "y", "env_id"):
        assert np.array_equal(table.graph[name], moved.graph[name])
    rows, partner = source_rows(table, source), table.graph["provenance.partner"]
    domains = infer_domains(source.node["node_feat"])
    low, high = domains.low[6:], domains.high[6:]
    for graph in range(0, 300, 17):
        own, other = (
            source.node["node_feat"][3 * row : 3 * row + 3, 6:].astype(float)
            for row in (rows[graph], partner[graph])
        )
        ranks = [((each - low) / (high - low)).sum(axis=1).argsort().argsort()
                 for each in (own, other)]  # fmt: skip
        meets = other[[ranks[1].tolist().index(rank) for rank in ranks[0]]]
        far = own + float(table.graph["provenance.lambda"][graph]) * (own - meets) - low
        there = np.mod(far, 2 * (high - low))
        expected = low + np.minimum(there, 2 * (high - low) - there)
        found = table.node["node_feat"][3 * graph : 3 * graph + 3, 6:]
        assert found == pytest.approx(expected, abs=1e-4)


def test_all_features_are_moved_on_demand(made, source):
    table = moved_graphs(generate(made, featx_features="all"))
    before = source.take(source_rows(table, source))
    assert ((before.node["node_feat"] != table.node["node_feat"]).mean(axis=0) > 0.9).all()


def test_the_same_config_gives_the_same_bytes_whatever_the_shards(made, tmp_path, monkeypatch):
    monkeypatch.setattr("gsx.stages.generate.featx.build.BLOCK_GRAPHS", 512)
    first, again = (generate(made, tmp_path / name, ratio=8.0) for name in "ab")
    assert first.manifest.digest == again.manifest.digest
    cut = generate(made, tmp_path / "c", ratio=8.0, shard_graphs=600)
    assert len([name for name in cut.manifest.files if "data/train" in name]) == 3 + 5
    one, other = (Corpus(each).table(split="train") for each in (first, cut))
    assert one.equals(other)


@pytest.mark.parametrize(("ratio", "expected"), [(0.5, 150), (2.5, 750)])
def test_ratios_take_some_graphs_or_all_of_them_several_times(made, ratio, expected):
    parents = moved_graphs(generate(made, ratio=ratio)).lists("graph", "provenance.parents").values
    assert len(parents) == expected
    counts = np.bincount(parents, minlength=300)
    assert set(counts) == {int(ratio), int(ratio) + 1}


def test_moved_graphs_alone(made):
    corpus = Corpus(generate(made, augmented_only=True, count=40))
    assert corpus.splits == {"train": 40}


@pytest.fixture(scope="module")
def both(made):
    options = {"options": "001", "bridges": "none", "f": (2, 3), "ratio": 0.5}
    return generate(made, **options)


def test_spliced_graphs_are_moved_too(both, source):
    corpus = Corpus(both)
    assert [(row["id"], row["origin"], row["count"]) for row in corpus.environments[4:]] == [
        (4, "g_whole", 150), (5, "featx", 300),
    ]  # fmt: skip
    assert both.manifest.summary["quality"]["featx"]["of"] == {"source": 150, "g_whole": 150}
    assert not audit(both.place).problems
    table = corpus.table(split="train")
    moved = table.filter(table.dense("graph", "origin") == ORIGINS.index("featx"))
    assert table.graph["graph_id"].tolist()[300:] == list(range(330, 330 + 150 + 300))
    rows = source_rows(moved, table)
    before = table.take(rows)
    assert np.array_equal(before.graph["y"], moved.graph["y"])
    assert np.array_equal(before.node["node_feat"][:, :6], moved.node["node_feat"][:, :6])
    assert np.array_equal(before.edge["edge_src"], moved.edge["edge_src"])
    spliced = before.graph["origin"] == ORIGINS.index("g_whole")
    assert spliced.sum() == 150
    partner = source_rows_of(moved.graph["provenance.partner"], source)
    weight = moved.graph["y"][np.arange(len(moved)), source.graph["label"][partner]]
    assert (weight > 0).all()


def source_rows_of(ids, source):
    row_of = {int(id_): row for row, id_ in enumerate(source.graph["graph_id"])}
    return np.array([row_of[int(id_)] for id_ in ids])


def test_spliced_graphs_are_those_without_featx(made, both):
    options = {"options": "001", "bridges": "none", "f": (2, 3), "ratio": 0.5, "featx": False}
    plain = Corpus(generate(made, **options)).table(split="train")
    beside = Corpus(both).table(split="train").slice(0, 450)
    assert plain.equals(beside)


def test_no_moved_graph_is_a_held_out_graph(tmp_path):
    """Binary colors on one structure: many results are held out, and are drawn anew."""
    table, info = planted_graphs(300, binary=True)
    features = np.array(table.dense("node", "node_feat"))
    features[:, :10] = 0
    features[:, 0] = np.repeat(table.graph["label"], 3)
    table = table.with_columns(node={"node_feat": features})
    corpus = write_planted(tmp_path, table, info, held_out=3)
    mask = run_stage(tmp_path, "mask", {"steps": 20}, {"prepare": corpus})
    made = {"folder": tmp_path, "prepare": corpus, "mask": mask}
    artifact = generate(made)
    quality = artifact.manifest.summary["quality"]["featx"]
    held_out = wl_hashes(Corpus(corpus).table(split="ood_test"))
    assert not np.isin(wl_hashes(moved_graphs(artifact)), held_out).any()
    assert quality["overlap_with_held_out"] == 0
    assert quality["refused"]["held-out graph"] > 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, ["6, those the mask calls non-causal", "away from a partner (extrapolation)",
              "λ ~ Gamma(2, 0.5), 1 on average"]),
        ({"featx_features": "all", "featx_direction": "interpolate", "featx_rounds": 3},
         ["12, all that vary", "towards a partner (interpolation)",
          "λ uniform between 0 and 1 of the way", "<td>partners of a sample</td><td>3</td>"]),
        ({"featx_shape": 9.0, "featx_scale": 2.0}, ["λ ~ Gamma(9, 2), 18 on average"]),
    ],
)  # fmt: skip
def test_the_report_tells_how_features_were_moved(made, tmp_path, options, told):
    corpus = generate(made, **options)
    page = tmp_path / "page.html"
    command("report", corpus.key[:12], "--out", page, "--store", made["folder"])
    shown = page.read_text()
    assert "300 graphs (source 300)" in shown
    assert "6 of 12 features of planted-graphs are called non-causal" in shown
    assert not [words for words in told if words not in shown]


def test_categories_stay_categories(tmp_path):
    """Codes of words, as TU files have them: moved ones are whole numbers of the vocabulary."""
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
    made = {"folder": tmp_path, "prepare": corpus, "mask": mask}
    assert (
        "called non-causal, because environments explain them and labels do not: color"
        in (mask.manifest.summary["words"])
    )
    found = moved_graphs(generate(made, ratio=3.0)).node["node_feat"]
    assert found.dtype == np.uint8
    assert set(found[:, 1]) == set(range(6))
    assert np.array_equal(found[:, 0], np.tile(codes[:, 0], 3))
    everything = moved_graphs(generate(made, featx_features="all")).node["node_feat"]
    assert everything.max(axis=0).tolist() == [6, 5]


# Bad input


def test_a_mask_for_other_features_is_refused(made, tmp_path):
    other = run_stage(tmp_path, "prepare", {"dataset": "fsmotif-size-color", "num_graphs": 100}, {})
    with pytest.raises(UsageError) as error:
        generate({**made, "prepare": other}, tmp_path)
    assert str(error.value) == (
        f"mask {made['mask'].key[:12]} is for 12 features; fsmotif-size-color has 3. Learn one on "
        "it: `gsx pretrain mask`."
    )


def test_a_mask_of_another_dataset_is_refused(made, tmp_path):
    table, info = planted_graphs(60)
    info = msgspec.structs.replace(info, name="others")
    corpus = write_planted(tmp_path, table, info)
    with pytest.raises(UsageError) as error:
        generate({**made, "prepare": corpus}, tmp_path)
    assert str(error.value) == (
        f"mask {made['mask'].key[:12]} says which features of planted-graphs vary with the "
        "environment, not of others. Learn one on it: `gsx pretrain mask`."
    )


def test_a_mask_of_nothing_is_refused(tmp_path):
    table, info = planted_graphs(600)
    features = np.tile(table.dense("node", "node_feat")[:, :6], 2)
    corpus = write_planted(tmp_path, table.with_columns(node={"node_feat": features}), info)
    mask = run_stage(tmp_path, "mask", {}, {"prepare": corpus})
    made = {"folder": tmp_path, "prepare": corpus, "mask": mask}
    with pytest.raises(StageError) as error:
        generate(made)
    assert str(error.value) == (
        f"nothing to extrapolate: mask {mask.key[:12]} calls no feature of planted-graphs "
        "non-causal. Move all of them with `--featx-features all`, or leave FeatX out."
    )
    assert len(moved_graphs(generate(made, featx_features="all"))) == 600


def test_graphs_without_partners_are_refused(made, tmp_path):
    table, info = planted_graphs(60)
    env = table.graph["label"].astype(np.int32)
    corpus = write_planted(tmp_path, table.with_columns(graph={"env_id": env}), info)
    with pytest.raises(StageError) as error:
        generate({**made, "prepare": corpus}, tmp_path)
    assert str(error.value) == (
        "nothing to extrapolate: no training graph of planted-graphs has a partner of its label "
        "in another environment. Prepare the corpus with environments."
    )
    assert not [path for path in (tmp_path / "corpus").iterdir() if corpus.key[:32] != path.name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"options": "000"}, "options 000 makes nothing. Turn at least one on, such as 001."),
        ({"featx": True, "featx_shape": 0.0}, "featx_shape must be positive; got 0"),
        ({"featx": True, "featx_scale": -1.0}, "featx_scale must be positive; got -1"),
        ({"featx": True, "replicas": 0}, "replicas must be at least 1; got 0"),
        ({"featx": True, "featx_rounds": 0}, "featx_rounds must be at least 1; got 0"),
    ],
)
def test_options_that_cannot_work_are_refused(options, message):
    with pytest.raises(UsageError) as error:
        resolve(GenerateConfig(**options))
    assert str(error.value) == message


def test_the_command_learns_a_mask_and_moves_features(made, tmp_path):
    key = made["prepare"].key[:12]
    store = ("--store", made["folder"])
    done = command("generate", key, "--featx", "--count", 50, "--json", *store)
    said = json.loads(done.out)
    assert [step["step"] for step in said["steps"]] == ["mask", "generate"]
    assert said["counts"] == {"train": 350, "ood_test": 30}
    given = command("generate", key, "--featx", "--mask", made["mask"].key[:12],
                    "--featx-direction", "interpolate", "--json", *store)  # fmt: skip
    assert [step["step"] for step in json.loads(given.out)["steps"]] == ["generate"]
    repeated = command("generate", key, "--featx", "--options", "000", "--replicas", 3, *store)
    assert repeated.code == 2
    assert "labels graphs, which have no replicas: say how many new ones with `--count`" in (
        repeated.err
    )
    lonely = command("generate", key, "--featx-features", "all", *store)
    assert lonely.code == 2
    assert "--featx-features is for moved features; add --featx" in lonely.err
    alone = command("generate", key, "--domain", "0..1", *store)
    assert alone.code == 2
    assert "--domain is for moved features; add --featx" in alone.err
    both = command("generate", key, "--featx", "--mask", "abc", "--domain", "0..1", *store)
    assert both.code == 2
    assert "a mask has the domains it was learned with; leave --mask or --domain out" in both.err
    wider = command(
        "generate", key, "--featx", "--count", 9, "--domain", "-90..90", "--json", *store
    )
    steps = {step["step"]: step["key"] for step in json.loads(wider.out)["steps"]}
    learned = command("show", steps["mask"], "--json", *store)
    assert json.loads(learned.out)["summary"]["domains"] == ["-90..90"]
    unused = command("generate", key, "--options", "001", "--mask", made["mask"].key[:12], *store)
    assert "--mask is not used by these options; leave it out" in unused.err
    shown = command("show", said["key"], *store)
    assert "features moved: 50 graphs (source 50), 6 features" in shown.out


def test_keys_of_corpora_without_featx_are_what_they_were(made):
    config = {"options": "001", "bridges": "none", "featx": False}
    plain = generate(made, **config)
    assert not {name for name in plain.manifest.config if "featx" in name or name == "replicas"}


@pytest.mark.parametrize(("options", "count"), [("000", 2500), ("001", 90)])
def test_the_order_in_which_shards_end_changes_no_byte(made, tmp_path, options, count):
    """A spliced shard and what FeatX makes of it are one piece of work; source graphs another."""
    from tests.integration.test_distributed_generation import OddCrew, generate_by

    given = {name: made[name] for name in ("prepare", "mask")}
    chosen = {"options": options, "count": count, "shard_graphs": 30, "bridges": "none"}
    plain = generate_by(made["folder"], given, {"featx": True, **chosen})

    @contextlib.contextmanager
    def hire(job, draft, log):
        yield OddCrew(job, [*reversed(range(200)), 2], tmp_path)

    again = generate_by(made["folder"], given, {"featx": True, **chosen}, hire, force=True)
    assert again.manifest.files == plain.manifest.files
    assert sum("hashes/" in name for name in again.manifest.files) > 3
