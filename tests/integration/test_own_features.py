"""FeatX on a user's table: feature names, and the policy for values beyond the training range."""

import csv

import numpy as np
import pytest
from safetensors.numpy import load

from gsx.pipeline.plan import identity_of, make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.schema import Column, SchemaError, corpus_columns
from gsx.stages.augmented.replicas import SPLIT
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import gsx

POLICY = (
    "FeatX: all features stay inside the range of the training data (default); values beyond it "
    "wrap around. If test values may be outside, give a larger range, such as "
    "`--feature-range +50%`"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A store with the source corpus of 240 papers; page lengths grow with the year."""
    folder = tmp_path_factory.mktemp("papers")
    rng = np.random.default_rng(0)
    with (folder / "papers.csv").open("w") as nodes, (folder / "links.csv").open("w") as edges:
        nodes.write("id,year,length,topic a,field\n")
        edges.write("from,to\n")
        for n in range(240):
            label = n % 2
            length = n / 60 + rng.normal() / 10
            nodes.write(f"p{n},{2000 + n // 20},{length:.4f},{label + rng.normal():.4f},{label}\n")
            edges.write(f"p{n},p{(n * 7 + 2) % 240}\n")
    result = gsx(
        "prepare", "--nodes", folder / "papers.csv", "--edges", folder / "links.csv",
        "--target", "field", "--task", "classification", "--domain", "column:year",
        "--store", folder, "--out", folder / "source",
    )  # fmt: skip
    assert result.code == 0, result.err
    return folder


def generate(home, out, *options):
    result = gsx("generate", home / "source", "--featx", "--replicas", "2", "--store", home,
                 "--out", home / out, *options)  # fmt: skip
    assert result.code == 0, result.err
    return result


@pytest.fixture(scope="module")
def default_range(home):
    """The outcome of the command that writes ``default``, a corpus within the training range."""
    return generate(home, "default", "--featx-features", "all")


def moved_lengths(home, out):
    table = Corpus(Store.at(home).resolve(str(home / out))).table(split=SPLIT)
    replicas = table.filter(table.dense("graph", "origin") > 0)
    train = replicas.dense("node", "node_split") == 0
    return replicas.dense("node", "node_feat")[train, 0]


def test_names_are_stored_and_reach_mask_report_and_exports(home):
    column = Corpus(Store.at(home).resolve(str(home / "source"))).info.column("node_feat")
    assert column.names == column.value_names == ("length", "topic a")
    result = gsx("pretrain", "mask", home / "source", "--store", home, "--steps", "20")
    assert "(length)" in result.out
    assert "those of the training data (default)" in result.out
    generate(home, "made", "--featx-features", "all")
    result = gsx("report", home / "made", "--store", home, "-o", home / "report.html")
    assert result.code == 0, result.err
    page = (home / "report.html").read_text()
    assert "topic a" in page
    assert "length: " in page
    assert "feature 0" not in page
    result = gsx("export", home / "made", "--to", "csv", home / "tables", "--store", home)
    assert result.code == 0, result.err
    (nodes,) = (home / "tables").rglob("nodes.csv")
    with nodes.open() as stream:
        assert {"length", "topic_a"} <= set(next(csv.reader(stream)))


def test_the_default_range_policy_is_printed_and_stored(home, default_range):
    assert POLICY in default_range.err.replace("\n", " ")
    artifact = Store.at(home).resolve(str(home / "default"))
    assert POLICY in artifact.manifest.warnings
    source = Corpus(Store.at(home).resolve(str(home / "source"))).table(split=SPLIT)
    train = source.dense("node", "node_split") == 0
    largest = source.dense("node", "node_feat")[train, 0].max()
    assert moved_lengths(home, "default").max() <= largest


@pytest.mark.usefixtures("default_range")
def test_wider_ranges_are_used_and_silence_the_note(home):
    result = generate(home, "wider", "--featx-features", "all", "--feature-range", "+50%")
    assert "stay inside the range" not in result.err
    default = moved_lengths(home, "default")
    wider = moved_lengths(home, "wider")
    assert wider.max() > default.max() + 0.5
    named = generate(home, "named", "--featx-features", "all", "--feature-range", "length=-9..20")
    assert "FeatX: features without `--feature-range` stay inside the range" in named.err
    mask = next(path for path in (home / "mask").rglob("mask.safetensors")
                if load(path.read_bytes())["high"][0] == 20)  # fmt: skip
    assert load(mask.read_bytes())["low"][0] == -9


def test_names_are_new_in_the_key_of_node_tables_only(home):
    text = (
        f'[prepare]\ndataset = "nodes"\nfile = "{home / "papers.csv"}"\n'
        f'edges = "{home / "links.csv"}"\ntargets = ["field"]\n'
    )

    def config(extra):
        (step,) = make_plan(parse_recipe(text + extra, "r.toml"))
        return identity_of(step, {}).config

    assert config("")["feature_names"] is True
    assert "feature_names" not in config("feature_names = false\n")


def test_names_must_fit_the_column():
    columns = corpus_columns(outputs=2, num_features=2, feature_names=("a", "b"))
    assert next(c for c in columns if c.name == "node_feat").value_names == ("a", "b")
    with pytest.raises(SchemaError, match="has 1 names of values; its width is 2"):
        Column(name="x", axis="node", dtype="float32", width=2, names=("a",))
    with pytest.raises(SchemaError, match="the name"):
        Column(name="x", axis="node", dtype="float32", width=1, names=("a\u202eb",))
