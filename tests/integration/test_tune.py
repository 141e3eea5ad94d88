"""Tuning selects by OOD validation, resumes after interrupts, and uses no test scores."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gsx.cli.main import cli
from gsx.errors import RecipeError, StageError, StoreError, UsageError
from gsx.pipeline.tuning.search_presets import METHODS
from gsx.pipeline.tuning.search_space import SearchSpace, read_search_space, stage_options
from gsx.pipeline.tuning.study import Study, study_lock
from gsx.stages.train.trainer import Trainer
from gsx.storage.artifacts.store import Store
from tests.support.run_stages import unchanged, write_small_corpus
from tests.support.tuning import NUM_COMBINATIONS, SMALL_SPACE, write_tuning_corpus

PAPER = METHODS["g-splice"].values


def gsx(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def space(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(SMALL_SPACE)
    return path


def tune(store, corpus, space, *more):
    words = ("tune", corpus, "--space", space, "--epochs", 1, "--store", store, *more)
    return gsx(*words, "--json")


def trial_options(document):
    return [trial["options"] for trial in document["trials"]]


@pytest.fixture
def corpus(tmp_path):
    return write_tuning_corpus(tmp_path / "store")


def test_the_best_trial_by_validation_is_selected_and_its_test_score_printed(
    tmp_path, corpus, space
):
    output = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 4).stdout)
    scores = [trial["ood_val"] for trial in output["trials"]]
    assert len(scores) == 4
    best = output["best"]
    assert best["trial"] == int(np.argmax(scores))
    assert output["trials"][best["trial"]]["model_keys"] == best["model_keys"]
    model = Store.at(tmp_path / "store").resolve(best["model_keys"][0], kind="model")
    selected = model.manifest.summary["quality"]["selection"]["last"]
    for split in ("ood_val", "ood_test", "id_test"):
        assert best["scores"][split]["mean"] == selected[split]
    assert best["options"]["generate"]["options"] == "001"
    assert all("ood_test" not in json.dumps(trial) for trial in output["trials"])
    assert "ood_test" not in json.dumps(output["none"])
    baseline = output["none"]["ood_val"]
    assert [trial["difference"] for trial in output["trials"]] == pytest.approx(
        [score - baseline for score in scores]
    )


def test_every_combination_is_tried_once(tmp_path, corpus, space):
    output = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 50).stdout)
    assert len(output["trials"]) == NUM_COMBINATIONS
    assert len({json.dumps(options) for options in trial_options(output)}) == NUM_COMBINATIONS


def test_a_study_contains_json_lines_without_test_scores(tmp_path, corpus, space):
    output = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 3).stdout)
    lines = Path(output["study"]).read_text(encoding="utf-8").splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
    assert not any("test" in line for line in lines)
    values = [line["values"] for line in map(json.loads, lines) if line.get("values")]
    assert values == [[trial["ood_val"]] for trial in output["trials"]]


def shuffle_test_labels(table):
    """Permute the labels of test graphs."""
    is_test = np.isin(table.dense("graph", "split"), [2, 4])
    order = np.arange(len(table))
    order[is_test] = order[is_test][::-1]
    y, label = table.dense("graph", "y")[order], table.dense("graph", "label")[order]
    return table.with_columns(graph={"y": y, "label": label})


def test_test_labels_change_neither_the_trials_nor_the_selection(tmp_path, corpus, space):
    store = tmp_path / "store"
    permuted = write_tuning_corpus(store, shuffle_test_labels)
    one, two = (
        json.loads(tune(store, source.key, space, "--trials", 5).stdout)
        for source in (corpus, permuted)
    )
    assert one["study"] != two["study"]
    assert trial_options(one) == trial_options(two)
    assert [t["ood_val"] for t in one["trials"]] == [t["ood_val"] for t in two["trials"]]
    assert one["best"]["trial"] == two["best"]["trial"]


def test_an_interrupted_study_resumes_with_the_same_trials(tmp_path, corpus, space, monkeypatch):
    whole = tmp_path / "whole"
    source = write_tuning_corpus(whole)
    expected = json.loads(tune(whole, source.key, space, "--trials", 5).stdout)
    train_epoch, started = Trainer.train_epoch, []

    def interrupt_the_fourth_epoch(self, number):
        started.append(number)
        if len(started) == 4:  # one without augmentation, two trials, and this one
            raise KeyboardInterrupt
        return train_epoch(self, number)

    monkeypatch.setattr(Trainer, "train_epoch", interrupt_the_fourth_epoch)
    tune(tmp_path / "store", corpus.key, space, "--trials", 5)
    assert len(started) == 4
    two = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 2).stdout)
    assert len(two["trials"]) == 2
    assert len(started) == 4
    output = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 5).stdout)
    assert trial_options(output) == trial_options(expected)
    assert len(started) == 4 + 3
    assert output["best"]["model_keys"] == expected["best"]["model_keys"]


def test_a_round_has_the_same_trials_wherever_it_was_interrupted(tmp_path, corpus, space):
    whole = tmp_path / "whole"
    source = write_tuning_corpus(whole)
    expected = json.loads(tune(whole, source.key, space, "--trials", 7, "--round", 3).stdout)
    for trials in (2, 4, 7):
        words = ("--trials", trials, "--round", 3)
        output = json.loads(tune(tmp_path / "store", corpus.key, space, *words).stdout)
        assert len(output["trials"]) == trials
    assert trial_options(output) == trial_options(expected)
    assert len({json.dumps(options) for options in trial_options(output)}) == 7
    single = json.loads(tune(whole, source.key, space, "--trials", 7).stdout)
    assert single["study"] != expected["study"]


def test_the_score_of_a_trial_is_the_mean_over_seeds(tmp_path, corpus, space):
    more = ("--trials", 2, "--seeds", 2)
    output = json.loads(tune(tmp_path / "store", corpus.key, space, *more).stdout)
    assert [len(trial["model_keys"]) for trial in output["trials"]] == [2, 2]
    store = Store.at(tmp_path / "store")
    for trial in output["trials"]:
        models = [store.resolve(key, kind="model").manifest for key in trial["model_keys"]]
        scores = [m.summary["quality"]["selection"]["last"]["ood_val"] for m in models]
        assert trial["ood_val"] == pytest.approx(np.mean(scores))
        assert [m.config["seed"] for m in models] == [0, 1]
    assert len(output["best"]["scores"]["ood_test"]["interval"]) == 2


def test_the_text_output_lists_trials_and_the_best(tmp_path, corpus, space):
    space.write_text(SMALL_SPACE.replace("[[2, 2], [3, 3]]", "[[2, 3]]").replace("[4, 8]", "[4]"))
    words = ("tune", corpus.key, "--space", space, "--epochs", 1, "--trials", 9)
    result = gsx(*words, "--store", tmp_path / "store")
    lines = [line for line in result.stderr.splitlines() if not line.startswith("generate: ")]
    assert [line[:10] for line in lines] == [
        "none: ood_",
        "trial   0:",
        "trial   1:",
        "all combin",
    ]
    assert "all combinations of values have been tried" in result.stderr
    assert "options=001 bridges=none f=2..3" in result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["TRIAL", "OOD_VAL", "DIFF", "OPTIONS"]
    assert lines[1].split()[0] == "none"
    assert any(line.startswith("selected by ood_val: trial ") for line in lines)
    assert any(line.startswith("accuracy: ood_val ") and "ood_test" in line for line in lines)


def test_a_dry_run_prints_the_search_space(tmp_path, corpus, space):
    store = tmp_path / "store"
    output = json.loads(tune(store, corpus.key, space, "--dry-run").stdout)
    assert (output["choices"], output["done"], output["trials"]) == (NUM_COMBINATIONS, 0, 20)
    assert output["values"]["generate.f"] == [[2, 2], [3, 3]]
    assert not (store / ".studies").exists()
    first = json.loads(tune(store, corpus.key, space, "--trials", 1).stdout)
    journal = Path(first["study"]).read_bytes()
    assert json.loads(tune(store, corpus.key, space, "--dry-run").stdout)["done"] == 1
    assert Path(first["study"]).read_bytes() == journal
    shown = gsx("tune", "motif-size", "--num-graphs", 300, "--dry-run", "--store", store).stdout
    assert "study: created when the source corpus is prepared" in shown


def test_failed_trials_are_reported_and_skipped(tmp_path, corpus, space):
    space.write_text(SMALL_SPACE.replace("[[2, 2], [3, 3]]", "[[2, 2], [1, 1]]"))
    output = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 50).stdout)
    reasons = [trial["reason"] for trial in output["trials"] if "reason" in trial]
    assert len(reasons) == NUM_COMBINATIONS // 2
    assert reasons[0] == "option 3 splices at least two graphs; give an f of at least 2"
    space.write_text(SMALL_SPACE.replace("[[2, 2], [3, 3]]", "[[1, 1]]"))
    with pytest.raises(StageError, match="none of 2 trials has a score; the last one: option 3"):
        tune(tmp_path / "store", corpus.key, space, "--trials", 2)


def test_a_corpus_without_ood_validation_is_rejected(tmp_path, space):
    corpus = write_small_corpus(tmp_path, unchanged, sizes={"train": 30, "id_val": 10})
    with pytest.raises(
        UsageError, match="tuning selects by `ood_val`, which motif-size does not have"
    ):
        tune(tmp_path, corpus.key, space)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("motif-size", "--trials", 0), "--trials must be at least 1; got 0"),
        (("motif-size", "--seeds", 0), "--seeds must be at least 1; got 0"),
        (("motif-size", "--round", 0), "--round must be at least 1; got 0"),
        (("motif-sise",), "no dataset and no corpus `motif-sise`. Did you mean `motif-size`"),
    ],
)
def test_invalid_options_are_rejected(tmp_path, words, message):
    with pytest.raises(UsageError, match=message):
        gsx("tune", *words, "--store", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[generat]\nf = [[2, 2]]",
            "`generat` is not a section that can be tuned. Did you mean `g",
        ),
        ("f = [2]", "`f` is not a section that can be tuned"),
        ("[generate]\nfs = [2]", r"space.toml \[generate\]: unknown option `fs`. Did you mean `f`"),
        ("[generate]\nratio = 1.0", r"`ratio` must be a list of values such as \[0.6, 0.8\]"),
        ("[generate]\nratio = []", "`ratio` must be a list of values"),
        ("[generate]\nratio = [-1.0]", "`ratio` = -1.0: ratio must be positive; got -1.0"),
        ("[generate]\nratio = ['much']", "`ratio`: Expected `float | null`, got `str`"),
        ("[generate]\nf = [[2, 2], [2, 2]]", r"`f` lists \[2, 2\] twice"),
        ("[train]\nseed = [0, 1]", "`seed` cannot be tuned; give it on the command line"),
        ("[train]\nattach = 1", "unknown option `attach`"),
        ("[bridge]\nlatent = 3", r"`latent` must be a list of values such as \[16\]"),
        ("nonsense", "space.toml is not TOML"),
    ],
)
def test_an_invalid_search_space_file_is_rejected(tmp_path, text, message):
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message):
        read_search_space(path)


def test_the_example_search_space_is_valid(pytestconfig):
    space = read_search_space(pytestconfig.rootpath / "examples" / "space.toml")
    assert space.values["generate.f"] == ([2, 4], [2, 8])
    assert len(list(space.all_params())) == 2448


def test_a_missing_search_space_file_is_reported(tmp_path):
    with pytest.raises(RecipeError, match=r"no file .*none\.toml\. Write one, or leave `--space`"):
        read_search_space(tmp_path / "none.toml")


def test_the_default_values_are_those_of_the_paper():
    assert PAPER["generate.f"] == ([2, 2], [3, 3], [4, 4])
    assert PAPER["generate.ratio"] == (0.6, 0.8, 1.0)
    assert set(PAPER["bridge.attribute_weight"]) == {1.5, 1.0, 0.5, 0.1}
    assert set(PAPER["bridge.kl_weight"]) >= {1.5, 1.0, 0.5, 0.1}
    assert PAPER["train.penalty"] == (1.0, 10.0, 100.0)
    assert len(PAPER["generate.options"]) == 7


@pytest.mark.parametrize(
    ("params", "without"),
    [
        ({"generate.options": '"100"'}, {"generate.f", "generate.partners", "bridge.kl_weight"}),
        ({"generate.bridges": '"random"'}, {"bridge.kl_weight", "bridge.attribute_weight"}),
        ({"train.learner": '"erm"'}, {"train.penalty"}),
    ],
)
def test_options_without_effect_are_not_tuned(params, without):
    names = set(SearchSpace(PAPER).active_options(params))
    assert not names & without
    assert without <= set(SearchSpace(PAPER).active_options({}))
    assert "bridge.attribute_weight" not in set(
        SearchSpace(PAPER, edge_attributes=False).active_options({})
    )


def test_sampled_params_are_among_all_params():
    space = SearchSpace({**PAPER, "bridge.kl_weight": (1.0,), "bridge.attribute_weight": (1.0,)})
    all_params = [frozenset(params.items()) for params in space.all_params()]
    assert len(set(all_params)) == len(all_params)
    stream = np.random.default_rng(0)
    assert all(frozenset(space.sample(stream).items()) in set(all_params) for _ in range(50))
    assert stage_options({"generate.f": "[2, 3]", "train.penalty": "1.0"}, "generate") == {
        "f": [2, 3]
    }


def test_smaller_scores_are_better_for_errors(tmp_path):
    space = SearchSpace({"train.width": (4, 8, 16)})
    for larger, expected in ((True, 2), (False, 0)):
        path = tmp_path / f"{larger}.journal"
        study = Study(path, space, seed=0, larger_is_better=larger)
        for score in (1.0, 2.0, 3.0):
            study.tell(study.ask(), score, {})
        assert study.best().number == expected
        assert study.ask() is None


def test_a_damaged_study_is_reported(tmp_path):
    path = tmp_path / "a.journal"
    path.write_text("no journal\n[]\n")
    with pytest.raises(
        StoreError, match=r"a\.journal is not a study that Optuna .* Move the file away"
    ):
        Study(path, SearchSpace(PAPER), seed=0, larger_is_better=True)


@pytest.mark.parametrize(
    ("values", "score", "details"),
    [
        ((32, 64), 1.0, {}),
        ((4, 8), float("inf"), {}),
        ((4, 8), None, {"reason": ["x"]}),
        ((4, 8), 1.0, {"model_keys": {"a": 1}}),
    ],
)
def test_a_study_with_other_values_is_reported(tmp_path, values, score, details):
    path = tmp_path / "a.journal"
    study = Study(path, SearchSpace({"train.width": values}), seed=0, larger_is_better=True)
    study.tell(study.ask(), score, details)
    again = Study(path, SearchSpace({"train.width": (4, 8)}), seed=0, larger_is_better=True)
    with pytest.raises(StoreError, match=r"a\.journal is not a study .* Move the file away"):
        again.finished_trials()


def test_a_missing_optuna_is_reported_with_the_command_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"tuning needs Optuna .*pip install 'gsx\[pipeline\]'"):
        Study(tmp_path / "a.journal", SearchSpace(PAPER), seed=0, larger_is_better=True)


def test_a_study_is_locked_while_it_is_used(tmp_path):
    path = tmp_path / "a.journal"
    with (
        study_lock(path),
        pytest.raises(UsageError, match=r"another gsx process uses the study .*a\.journal"),
        study_lock(path),
    ):
        pass


def test_named_algorithms_are_tuned_with_the_values_of_the_paper(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text('[train]\nlearner = ["erm", "vrex"]\n')
    assert read_search_space(path).values == PAPER
    path.write_text('[train]\nlearner = ["flag", "lisa", "irm"]\nmix_alpha = [3.0]\n')
    space = read_search_space(path)
    train_values = {name: space.values[name] for name in space.values if name.startswith("train.")}
    assert train_values == {
        "train.learner": ("flag", "lisa", "irm"),
        "train.ascent_step": (1e-2, 1e-3, 5e-3, 1e-4),
        "train.mix_alpha": (3.0,),
        "train.penalty": (0.1, 1.0, 10.0, 100.0),
    }
    tuned_options = {
        algorithm: [
            name.removeprefix("train.")
            for name in space.active_options({"train.learner": json.dumps(algorithm)})
            if name.startswith("train.")
        ]
        for algorithm in ("erm", "flag", "lisa", "irm")
    }
    assert tuned_options == {
        "erm": ["learner"],
        "flag": ["learner", "ascent_step"],
        "lisa": ["learner", "mix_alpha"],
        "irm": ["learner", "penalty"],
    }
