"""Tuning of methods other than splicing: their values, their corpora and their limits."""

import json

import pytest
from click.testing import CliRunner

from gsx.cli.main import cli
from gsx.cli.tune import METHODS as CLI_METHODS
from gsx.errors import RecipeError, UsageError
from gsx.pipeline.tuning.search_presets import METHODS, applicable_values
from gsx.pipeline.tuning.search_space import SearchSpace, read_search_space
from gsx.schema import CorpusInfo
from gsx.storage.artifacts.store import Store
from tests.support.synthetic_corpora import planted_nodes, write_planted
from tests.support.tuning import write_tuning_corpus

TRAIN_SPACE = '[train]\nlearner = ["erm"]\nwidth = [4]\nbatch_size = [16]\n'


def tune(store, corpus, *more, space=TRAIN_SPACE):
    path = store / "space.toml"
    path.write_text(space)
    words = ("tune", corpus.key, "--space", path, "--epochs", 1, "--store", store, *more, "--json")
    result = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    return folder, write_tuning_corpus(folder)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    return folder, write_planted(folder, *planted_nodes(120))


def best_manifests(folder, output):
    """Return the manifests of the corpus and of the first model of the best trial."""
    store = Store.at(folder)
    models = [store.resolve(key, kind="model") for key in output["best"]["model_keys"]]
    return store.resolve(output["best"]["corpus_key"], kind="corpus").manifest, models[0].manifest


def test_the_command_lists_every_method():
    assert tuple(METHODS) == CLI_METHODS


def test_the_values_are_those_of_the_paper():
    for method in ("drop-node", "drop-edge", "mask-feature"):
        assert METHODS[method].values["augment.rate"] == (0.05, 0.1, 0.15, 0.2, 0.3)
    assert METHODS["g-mixup"].values["augment.ratio"] == (0.1, 0.2, 0.3)
    assert METHODS["g-mixup"].values["augment.mix"] == ([0.1, 0.2], [0.2, 0.3])
    assert METHODS["featx"].values["generate.featx_shape"] == (2, 3, 5, 7, 9)
    assert METHODS["featx"].values["generate.featx_scale"] == (0.5, 1, 2)


@pytest.mark.parametrize(("method", "combinations"), [("drop-edge", 5), ("g-mixup", 6)])
def test_all_values_of_an_augmentation_are_tried(graphs, method, combinations):
    folder, corpus = graphs
    output = tune(folder, corpus, "--method", method, "--trials", 20)
    assert len(output["trials"]) == combinations
    names = [name for name in METHODS[method].values if name.startswith("augment.")]
    tried = {
        tuple(json.dumps(trial["options"][name]) for name in names) for trial in output["trials"]
    }
    assert len(tried) == combinations
    assert len({trial["corpus_key"] for trial in output["trials"]}) == combinations
    corpus_manifest, model_manifest = best_manifests(folder, output)
    best = output["best"]["options"]["augment"]
    assert corpus_manifest.config["method"] == method
    assert all(corpus_manifest.config[name] == value for name, value in best.items())
    assert model_manifest.parents[0].digest == corpus_manifest.digest
    assert model_manifest.config["source"] == "augment"


def test_algorithms_are_tuned_on_the_source_corpus(graphs):
    folder, corpus = graphs
    space = TRAIN_SPACE.replace('["erm"]', '["flag"]')
    output = tune(folder, corpus, "--method", "none", "--trials", 20, space=space)
    assert [trial["options"]["train.ascent_step"] for trial in output["trials"]] != []
    assert len(output["trials"]) == 4
    assert output["best"]["corpus_key"] == corpus.key
    assert best_manifests(folder, output)[1].config["source"] == "prepare"


@pytest.mark.parametrize("method", ["featx", "drop-edge", "none"])
def test_methods_are_tuned_on_node_labels(nodes, method):
    folder, corpus = nodes
    space = TRAIN_SPACE + ("[mask]\nsteps = [20]\n" if method == "featx" else "")
    output = tune(folder, corpus, "--method", method, "--trials", 3, space=space)
    scores = [trial["ood_val"] for trial in output["trials"]]
    assert len(scores) == (1 if method == "none" else 3)
    assert all(score is not None for score in scores)
    corpus_manifest, _ = best_manifests(folder, output)
    assert corpus_manifest.counts["all"] == (1 if method == "none" else 5)
    if method == "featx":
        assert (
            corpus_manifest.config["featx_shape"]
            == output["best"]["options"]["generate"]["featx_shape"]
        )


@pytest.mark.parametrize("method", ["g-splice", "drop-node", "g-mixup", "g-splice+featx"])
def test_methods_for_graph_labels_are_rejected_for_node_labels(nodes, method):
    with pytest.raises(UsageError) as error:
        tune(*nodes, "--method", method)
    assert str(error.value) == (
        f"{method} needs graph labels, but planted-nodes has node labels. Choose another "
        "`--method`: featx, drop-edge, mask-feature, none."
    )


@pytest.mark.parametrize(
    ("method", "text", "message"),
    [
        ("drop-edge", "[bridge]\nlatent = [8]",
         "space.toml: drop-edge does not use [bridge]; it uses [augment], [train]"),
        ("none", "[generate]\nf = [[2, 2]]",
         "space.toml: none does not use [generate]; it uses [train]"),
        ("drop-edge", '[augment]\nmethod = ["g-mixup"]',
         'space.toml [augment]: `method` is always "drop-edge" for drop-edge; leave it out'),
        ("drop-edge", "[augment]\nrate = [2.0]",
         "space.toml [augment]: `rate` = 2.0: rate must be between 0 and 1, such as 0.1; got 2"),
        ("drop-edge", "[augment]\nmix = [[0.1, 0.2]]",
         "space.toml [augment]: `mix` = [0.1, 0.2]: drop-edge has no option `mix`; its options are "
         "`rate`, `replicas`"),
        ("g-mixup", "[augment]\nmix = 0.1",
         "space.toml [augment]: `mix` must be a list of values such as [[0.1, 0.2], [0.2, 0.3]]"),
        ("featx", '[generate]\noptions = ["001"]',
         'space.toml [generate]: `options` is always "000" for featx; leave it out'),
    ],
)  # fmt: skip
def test_a_search_space_that_does_not_fit_the_method_is_rejected(tmp_path, method, text, message):
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(RecipeError) as error:
        read_search_space(path, method)
    assert str(error.value) == message


def test_featx_options_are_tuned_with_all_splice_options():
    space = SearchSpace(METHODS["g-splice+featx"].values)
    active = set(space.active_options({"generate.options": '"100"'}))
    assert {"generate.featx_shape", "generate.featx_scale"} <= active
    assert "generate.f" not in active


@pytest.mark.parametrize(
    ("task", "outputs", "molecules", "labels", "partners", "grow"),
    [
        ("classification", 3, False, ("average",), ("any", "same-class", "same-component"), 3),
        ("binary", 1, True, ("average", "any", "all"), ("any", "same-class", "same-component"), 1),
        ("multitask", 4, True, ("average", "any", "all"), ("any", "same-component"), 1),
        ("regression", 1, False, ("average",), ("any", "same-component"), 3),
    ],
)
def test_values_that_cannot_apply_are_not_tried(task, outputs, molecules, labels, partners, grow):
    info = CorpusInfo(
        name="test", task=task, outputs=tuple(map(str, range(outputs))), domain="size",
        environments=(), columns=(), num_features=1,
    )  # fmt: skip
    values = applicable_values(METHODS["g-splice"].values, info, molecules=molecules)
    assert values["generate.labels"] == labels
    assert values["generate.partners"] == partners
    assert len(values["generate.grow"]) == grow


def test_options_without_effect_are_not_chosen():
    space = SearchSpace(METHODS["g-splice"].values)
    whole_graphs = set(space.active_options({"generate.options": '"001"'}))
    assert "generate.labels" in whole_graphs
    assert not {"generate.grow", "generate.fragments", "generate.ports"} & whole_graphs
    swapped = set(space.active_options({"generate.options": '"010"'}))
    assert {"generate.grow", "generate.fragments", "generate.ports"} <= swapped
    assert "generate.labels" not in swapped
    apart = {"generate.options": '"010"', "generate.bridges": '"none"'}
    assert "generate.grow" not in set(space.active_options(apart))
