"""FSMotif datasets: structure and color shift, environments and options."""

import numpy as np
import pytest

from gsx.errors import UsageError
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.stages.prepare.dataset import DatasetRequest
from gsx.stages.prepare.synthetic import fsmotif
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.user_data import build_splits


def open_dataset(name="fsmotif-size-color", num_graphs=None, seed=0, **options):
    request = DatasetRequest(name=name, num_graphs=num_graphs, seed=seed, raw={}, options=options)
    return fsmotif.FAMILY.open(request)


@pytest.mark.parametrize("name", fsmotif.DATASETS)
def test_structure_and_color_shift_together(name):
    dataset = open_dataset(name)
    assert list(dataset.split_sizes.values()) == [1800, 300, 300, 300, 300]
    assert dict(fsmotif.FAMILY.metadata(name).counts) == dataset.split_sizes
    tables = build_splits(dataset)
    structure = "basis_id" if "base" in name else "width_id"
    domains = {split: (set(table.graph[structure].tolist()), set(table.graph["color_id"].tolist()))
             for split, table in tables.items()}  # fmt: skip
    assert domains["train"] == domains["id_val"] == domains["id_test"] == ({0, 1, 2}, set(range(5)))
    assert (domains["ood_val"], domains["ood_test"]) == (({3}, {5}), ({4}, {6}))
    assert (tables["ood_test"].graph["env_id"] == -1).all()
    assert [dataset.info.domains[int(tables[split].graph["domain_id"][0])]
            for split in ("ood_val", "ood_test")] == (
        ["star, pink", "path, magenta"] if "base" in name
        else ["width 25..35, pink", "width 65..75, magenta"]
    )  # fmt: skip


def test_node_features_are_the_color_of_the_graph():
    table = open_dataset().build("train", 0, 50)
    owner = np.repeat(np.arange(50), table.num_nodes)
    expected = fsmotif.PALETTE[table.graph["color_id"][owner]]
    np.testing.assert_array_equal(table.node["node_feat"], expected)


def test_color_and_motif_are_independent():
    table = open_dataset(num_graphs=60_000).build("train", 0, 36_000)
    motif, color = table.graph["motif_id"], table.graph["color_id"]
    share = np.histogram2d(motif, color, bins=(3, 5))[0] / len(table)
    assert np.abs(share - 1 / 15).max() < 0.005
    assert abs(float((table.graph["label"] == motif).mean()) - (0.9 + 0.1 / 3)) < 0.005


def test_environments_follow_the_option(tmp_path):
    counts = {}
    for kind in fsmotif.ENVIRONMENTS:
        dataset = open_dataset(environments=kind)
        env = dataset.build("train", 0, 1800).graph
        counts[kind] = len(dataset.info.environments)
        assert set(env["env_id"].tolist()) == set(range(counts[kind]))
        expected = {
            "product": env["width_id"].astype(int) * 5 + env["color_id"],
            "structure": env["width_id"],
            "color": env["color_id"],
        }[kind]
        np.testing.assert_array_equal(env["env_id"], expected)
    assert counts == {"product": 15, "structure": 3, "color": 5}
    names = [env.name for env in open_dataset().info.environments]
    assert names[:6:5] == ["width 1..11, red", "width 5..15, red"]


def test_graphs_do_not_depend_on_shard_boundaries_or_environments():
    whole = open_dataset().build("train", 0, 1800)
    assert open_dataset().build("train", 1000, 1100).equals(whole.slice(1000, 1100))
    other = open_dataset(environments="color").build("train", 0, 1800)
    assert other.with_columns(graph={"env_id": whole.graph["env_id"]}).equals(whole)
    assert not open_dataset(seed=1).build("train", 0, 9).equals(whole.slice(0, 9))


def test_recipe_prepares_a_corpus(tmp_path):
    text = '[prepare]\ndataset = "fsmotif-base-color"\nnum_graphs = 100\nenvironments = "color"\n'
    ((_, built),) = run_plan(make_plan(parse_recipe(text, "t.toml")), Store.at(tmp_path))
    corpus = Corpus(built.artifact)
    assert corpus.splits == {
        "train": 60,
        "id_val": 10,
        "id_test": 10,
        "ood_val": 10,
        "ood_test": 10,
    }
    assert corpus.info.domain == "base-color"
    assert built.artifact.manifest.config["environments"] == "color"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("environments = 3\n", "fsmotif-size-color: environments must be one of `product`, "
         "`structure`, `color` (found `3`)"),
        ("num_graphs = 9\n",
         "fsmotif-size-color: num_graphs must be in 10..10000000000 (found 9)"),
        ('protocol = "mid"\n', "fsmotif-size-color has no option `protocol`. "
         "Known: `environments`."),
    ],
)  # fmt: skip
def test_invalid_options_are_rejected(more, message):
    with pytest.raises(UsageError) as error:
        parse_recipe(f'[prepare]\ndataset = "fsmotif-size-color"\n{more}', "t.toml")
    assert str(error.value) == message
