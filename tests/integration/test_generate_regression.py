"""Splicing with regression targets that depend on size, and warnings that are printed."""

import msgspec
import numpy as np
import pytest

from gsx.errors import UsageError
from gsx.pipeline.plan import make_plan
from gsx.pipeline.recipe import parse_recipe
from gsx.pipeline.runner import run_plan
from gsx.schema import corpus_columns
from gsx.stages.prepare.synthetic import motif
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.run_stages import run_stage, write_small_corpus

SLOPE, INTERCEPT = -0.25, 3.0


def falling(table):
    """Replace labels by a linear function of the number of nodes."""
    y = (INTERCEPT + SLOPE * table.num_nodes).astype(np.float32)[:, None]
    return table.with_columns(graph={"y": y, "label": np.full(len(table), -1, dtype=np.int32)})


def regression_info():
    plain = motif.corpus_info("motif-size")
    extras = tuple(
        c for c in plain.columns if c.name in ("node_truth", "basis_id", "motif_id", "width_id")
    )
    columns = corpus_columns(outputs=1, num_features=1, extras=extras)
    return msgspec.structs.replace(
        plain, task="regression", metric="rmse", outputs=("y",), columns=columns, name="falling"
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regression")
    sizes = {"train": 300, "id_val": 20}
    return folder, write_small_corpus(folder, falling, regression_info(), sizes)


def spliced(corpus, **options):
    folder, source = corpus
    fixed = {"options": "001", "count": 80, "augmented_only": True, "bridges": "random"}
    return run_stage(folder, "generate", {**fixed, **options}, {"prepare": source})


def test_averaged_labels_get_a_warning(corpus):
    (warning,) = spliced(corpus).manifest.warnings
    assert "the target `y` falls with size in training" in warning
    assert "`--labels sum` or `--labels size-scaled`" in warning


def test_size_scaled_labels_continue_the_trend(corpus):
    artifact = spliced(corpus, labels="size-scaled")
    assert artifact.manifest.warnings == ()
    table = Corpus(artifact).table()
    assert table.graph["y"][:, 0] == pytest.approx(INTERCEPT + SLOPE * table.num_nodes, abs=1e-4)


def test_sums_of_labels(corpus):
    source = Corpus(corpus[1]).table(split="train")
    table = Corpus(spliced(corpus, labels="sum")).table()
    of = dict(zip(source.graph["graph_id"].tolist(), source.graph["y"][:, 0].tolist(), strict=True))
    parents = table.lists("graph", "provenance.parents")
    expected = [
        sum(of[parent] for parent in parents.values[start:stop].tolist())
        for start, stop in zip(parents.ptr[:-1], parents.ptr[1:], strict=True)
    ]
    assert table.graph["y"][:, 0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("any", "needs binary targets; the task of falling is regression"),
        ("nope", "`labels` cannot be `nope`"),
    ],
)
def test_rules_for_other_tasks_are_refused(corpus, rule, message):
    with pytest.raises(Exception, match=message) as caught:
        spliced(corpus, labels=rule)
    assert rule != "any" or isinstance(caught.value, UsageError)


def test_rules_for_values_are_refused_for_classes(tmp_path):
    with pytest.raises(UsageError, match="`labels = sum` needs a regression target"):
        spliced((tmp_path, write_small_corpus(tmp_path, lambda table: table)), labels="sum")


def test_warnings_of_the_source_are_printed_once(tmp_path):
    """A generated corpus repeats warnings about splits; both steps run in one command."""
    recipe = (
        '[prepare]\ndataset = "motif-size"\nnum_graphs = 60\n'
        '[generate]\noptions = "001"\nbridges = "none"\n'
    )
    printed: list[str] = []
    plan = make_plan(parse_recipe(recipe, "r.toml"))
    built = [step for _, step in run_plan(plan, Store.at(tmp_path), notify=printed.append)]
    source, corpus = (step.artifact.manifest.warnings for step in built)
    assert any(text.startswith("ood_test has only") for text in source)
    assert set(source) & set(corpus)
    texts = [line.partition(": ")[2] for line in printed]
    assert len(texts) == len(set(texts))
