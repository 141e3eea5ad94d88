"""Tuning other methods than splicing: their sets, their corpora, and what does not apply."""

import json

import pytest
from click.testing import CliRunner

from gsx.cli.main import cli
from gsx.cli.tune import METHODS as WORDS
from gsx.errors import RecipeError, UsageError
from gsx.pipeline.tuning.search_presets import METHODS
from gsx.pipeline.tuning.search_space import Space, read_space
from gsx.storage.artifacts.store import Store
from tests.support.run_stages import write_small_corpus
from tests.support.synthetic_corpora import planted_nodes, write_planted

SIZES = {"train": 60, "id_val": 20, "id_test": 20, "ood_val": 30, "ood_test": 30}
TRAIN = '[train]\nlearner = ["erm"]\nwidth = [4]\nbatch_size = [16]\n'


def tune(store, corpus, *more, space=TRAIN):
    path = store / "space.toml"
    path.write_text(space)
    words = ("tune", corpus.key, "--space", path, "--epochs", 1, "--store", store, *more, "--json")
    result = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    return folder, write_small_corpus(folder, lambda table: table, sizes=SIZES)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nodes")
    return folder, write_planted(folder, *planted_nodes(120))


def manifests(folder, told):
    place = Store.at(folder)
    models = [place.resolve(key, kind="model") for key in told["best"]["model_keys"]]
    return place.resolve(told["best"]["corpus_key"], kind="corpus").manifest, models[0].manifest


def test_the_command_knows_every_method():
    assert tuple(METHODS) == WORDS


def test_the_sets_are_those_of_the_paper():
    for method in ("drop-node", "drop-edge", "mask-feature"):
        assert METHODS[method].values["augment.rate"] == (0.05, 0.1, 0.15, 0.2, 0.3)
    assert METHODS["g-mixup"].values["augment.ratio"] == (0.1, 0.2, 0.3)
    assert METHODS["g-mixup"].values["augment.mix"] == ([0.1, 0.2], [0.2, 0.3])
    assert METHODS["featx"].values["generate.featx_shape"] == (2, 3, 5, 7, 9)
    assert METHODS["featx"].values["generate.featx_scale"] == (0.5, 1, 2)


@pytest.mark.parametrize(("method", "choices"), [("drop-edge", 5), ("g-mixup", 6)])
def test_all_values_of_an_augmenter_are_tried(graphs, method, choices):
    folder, corpus = graphs
    told = tune(folder, corpus, "--method", method, "--trials", 20)
    assert len(told["trials"]) == choices
    names = [name for name in METHODS[method].values if name.startswith("augment.")]
    tried = {tuple(json.dumps(each["options"][name]) for name in names) for each in told["trials"]}
    assert len(tried) == choices
    assert len({each["corpus_key"] for each in told["trials"]}) == choices
    made, model = manifests(folder, told)
    best = told["best"]["options"]["augment"]
    assert made.config["method"] == method
    assert all(made.config[name] == value for name, value in best.items())
    assert model.parents[0].digest == made.digest
    assert model.config["source"] == "augment"


def test_learners_are_tuned_on_the_source_itself(graphs):
    folder, corpus = graphs
    space = TRAIN.replace('["erm"]', '["flag"]')
    told = tune(folder, corpus, "--method", "none", "--trials", 20, space=space)
    assert [each["options"]["train.ascent_step"] for each in told["trials"]] != []
    assert len(told["trials"]) == 4
    assert told["best"]["corpus_key"] == corpus.key
    assert manifests(folder, told)[1].config["source"] == "prepare"


@pytest.mark.parametrize("method", ["featx", "drop-edge", "none"])
def test_methods_are_tuned_where_nodes_have_labels(nodes, method):
    folder, corpus = nodes
    space = TRAIN + ("[mask]\nsteps = [20]\n" if method == "featx" else "")
    told = tune(folder, corpus, "--method", method, "--trials", 3, space=space)
    scores = [each["ood_val"] for each in told["trials"]]
    assert len(scores) == (1 if method == "none" else 3)
    assert all(score is not None for score in scores)
    made, _ = manifests(folder, told)
    assert made.counts["all"] == (1 if method == "none" else 5)
    if method == "featx":
        assert made.config["featx_shape"] == told["best"]["options"]["generate"]["featx_shape"]


@pytest.mark.parametrize("method", ["g-splice", "drop-node", "g-mixup", "g-splice+featx"])
def test_what_is_for_graphs_is_refused_where_nodes_have_labels(nodes, method):
    with pytest.raises(UsageError) as error:
        tune(*nodes, "--method", method)
    assert str(error.value) == (
        f"{method} is for labelled graphs; planted-nodes has labelled nodes. Tune another "
        "`--method`: featx, drop-edge, mask-feature, none."
    )


@pytest.mark.parametrize(
    ("method", "text", "message"),
    [
        ("drop-edge", "[bridge]\nlatent = [8]",
         "space.toml: drop-edge does not use [bridge]; it has [augment], [train]"),
        ("none", "[generate]\nf = [[2, 2]]",
         "space.toml: none does not use [generate]; it has [train]"),
        ("drop-edge", '[augment]\nmethod = ["g-mixup"]',
         'space.toml [augment]: `method` is "drop-edge" for drop-edge; leave it out'),
        ("drop-edge", "[augment]\nrate = [2.0]",
         "space.toml [augment]: `rate` = 2.0: rate must lie between 0 and 1, such as 0.1; got 2"),
        ("drop-edge", "[augment]\nmix = [[0.1, 0.2]]",
         "space.toml [augment]: `mix` = [0.1, 0.2]: drop-edge takes no `mix`; it has `rate`, "
         "`replicas`"),
        ("g-mixup", "[augment]\nmix = 0.1",
         "space.toml [augment]: `mix` must be a list of values such as [[0.1, 0.2], [0.2, 0.3]]"),
        ("featx", '[generate]\noptions = ["001"]',
         'space.toml [generate]: `options` is "000" for featx; leave it out'),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_the_method_is_refused(tmp_path, method, text, message):
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(RecipeError) as error:
        read_space(path, method)
    assert str(error.value) == message


def test_moves_are_chosen_whatever_is_spliced():
    space = Space(METHODS["g-splice+featx"].values)
    alone = set(space.names({"generate.options": '"100"'}))
    assert {"generate.featx_shape", "generate.featx_scale"} <= alone
    assert "generate.f" not in alone
