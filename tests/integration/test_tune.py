"""Tuning picks by OOD validation, goes on where it stopped, and sees no test score."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gsx.cli.main import cli
from gsx.errors import RecipeError, StageError, StoreError, UsageError
from gsx.pipeline.tuning.search_presets import METHODS
from gsx.pipeline.tuning.search_space import Space, options_of, read_space
from gsx.pipeline.tuning.study import Study, alone
from gsx.stages.train.trainer import Steps
from gsx.storage.artifacts.store import Store
from tests.support.run_stages import unchanged, write_small_corpus

PAPER = METHODS["g-splice"].values
SIZES = {"train": 60, "id_val": 20, "id_test": 20, "ood_val": 30, "ood_test": 30}
SMALL = """
[generate]
options = ["001"]
bridges = ["none"]
f = [[2, 2], [3, 3]]
ratio = [0.5]
partners = ["any"]
[train]
learner = ["erm", "vrex"]
penalty = [1]
width = [4, 8]
batch_size = [16]
"""
CHOICES = 8
"""Of f, learner and width."""


def gsx(*words):
    return CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def space(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text(SMALL)
    return path


def tune(store, corpus, space, *more):
    words = ("tune", corpus, "--space", space, "--epochs", 1, "--store", store, *more)
    return gsx(*words, "--json")


def choices(document):
    return [trial["options"] for trial in document["trials"]]


@pytest.fixture
def corpus(tmp_path):
    return write_small_corpus(tmp_path / "store", unchanged, sizes=SIZES)


def test_the_best_by_validation_is_kept_and_its_test_score_told(tmp_path, corpus, space):
    told = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 4).stdout)
    scores = [trial["ood_val"] for trial in told["trials"]]
    assert len(scores) == 4
    best = told["best"]
    assert best["trial"] == int(np.argmax(scores))
    assert told["trials"][best["trial"]]["model_keys"] == best["model_keys"]
    model = Store.at(tmp_path / "store").resolve(best["model_keys"][0], kind="model")
    selected = model.manifest.summary["quality"]["selection"]["ood_val"]
    for split in ("ood_val", "ood_test", "id_test"):
        assert best["scores"][split]["mean"] == selected[split]
    assert best["options"]["generate"]["options"] == "001"
    assert all("ood_test" not in json.dumps(trial) for trial in told["trials"])


def test_every_choice_is_tried_once_and_then_it_ends(tmp_path, corpus, space):
    told = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 50).stdout)
    assert len(told["trials"]) == CHOICES
    assert len({json.dumps(each) for each in choices(told)}) == CHOICES


def test_a_study_is_lines_of_json_without_any_test_score(tmp_path, corpus, space):
    told = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 3).stdout)
    lines = Path(told["study"]).read_text(encoding="utf-8").splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
    assert not any("test" in line for line in lines)
    values = [line["values"] for line in map(json.loads, lines) if line.get("values")]
    assert values == [[trial["ood_val"]] for trial in told["trials"]]


def shuffled_test(table):
    """Permute the labels of test graphs."""
    held = np.isin(table.dense("graph", "split"), [2, 4])
    order = np.arange(len(table))
    order[held] = order[held][::-1]
    y, label = table.dense("graph", "y")[order], table.dense("graph", "label")[order]
    return table.with_columns(graph={"y": y, "label": label})


def test_test_labels_change_neither_what_is_tried_nor_what_is_kept(tmp_path, corpus, space):
    store = tmp_path / "store"
    permuted = write_small_corpus(store, shuffled_test, sizes=SIZES)
    one, two = (
        json.loads(tune(store, source.key, space, "--trials", 5).stdout)
        for source in (corpus, permuted)
    )
    assert one["study"] != two["study"]
    assert choices(one) == choices(two)
    assert [t["ood_val"] for t in one["trials"]] == [t["ood_val"] for t in two["trials"]]
    assert one["best"]["trial"] == two["best"]["trial"]


def test_a_stopped_study_goes_on_to_the_same_choices(tmp_path, corpus, space, monkeypatch):
    whole = tmp_path / "whole"
    source = write_small_corpus(whole, unchanged, sizes=SIZES)
    expected = json.loads(tune(whole, source.key, space, "--trials", 5).stdout)
    epoch, begun = Steps.epoch, []

    def stop_in_the_third(self, number):
        begun.append(number)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return epoch(self, number)

    monkeypatch.setattr(Steps, "epoch", stop_in_the_third)
    tune(tmp_path / "store", corpus.key, space, "--trials", 5)
    assert len(begun) == 3
    two = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 2).stdout)
    assert len(two["trials"]) == 2
    assert len(begun) == 3
    told = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 5).stdout)
    assert choices(told) == choices(expected)
    assert len(begun) == 3 + 3
    assert told["best"]["model_keys"] == expected["best"]["model_keys"]


def test_a_round_is_the_same_wherever_it_was_stopped(tmp_path, corpus, space):
    whole = tmp_path / "whole"
    source = write_small_corpus(whole, unchanged, sizes=SIZES)
    expected = json.loads(tune(whole, source.key, space, "--trials", 7, "--round", 3).stdout)
    for trials in (2, 4, 7):
        words = ("--trials", trials, "--round", 3)
        told = json.loads(tune(tmp_path / "store", corpus.key, space, *words).stdout)
        assert len(told["trials"]) == trials
    assert choices(told) == choices(expected)
    assert len({json.dumps(each) for each in choices(told)}) == 7
    single = json.loads(tune(whole, source.key, space, "--trials", 7).stdout)
    assert single["study"] != expected["study"]


def test_the_mean_over_seeds_decides(tmp_path, corpus, space):
    more = ("--trials", 2, "--seeds", 2)
    told = json.loads(tune(tmp_path / "store", corpus.key, space, *more).stdout)
    assert [len(trial["model_keys"]) for trial in told["trials"]] == [2, 2]
    place = Store.at(tmp_path / "store")
    for trial in told["trials"]:
        models = [place.resolve(key, kind="model").manifest for key in trial["model_keys"]]
        scores = [m.summary["quality"]["selection"]["ood_val"]["ood_val"] for m in models]
        assert trial["ood_val"] == pytest.approx(np.mean(scores))
        assert [m.config["seed"] for m in models] == [0, 1]
    assert len(told["best"]["scores"]["ood_test"]["interval"]) == 2


def test_a_person_is_shown_trials_and_the_best(tmp_path, corpus, space):
    space.write_text(SMALL.replace("[[2, 2], [3, 3]]", "[[2, 3]]").replace("[4, 8]", "[4]"))
    words = ("tune", corpus.key, "--space", space, "--epochs", 1, "--trials", 9)
    result = gsx(*words, "--store", tmp_path / "store")
    assert [line[:10] for line in result.stderr.splitlines()] == [
        "trial   0:",
        "trial   1:",
        "every choi",
    ]
    assert "every choice has been tried" in result.stderr
    assert "options=001 bridges=none f=2..3" in result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["TRIAL", "OOD_VAL", "OPTIONS"]
    assert any(line.startswith("picked by ood_val: trial ") for line in lines)
    assert any(line.startswith("accuracy: ood_val ") and "ood_test" in line for line in lines)


def test_a_dry_run_says_what_would_be_tried(tmp_path, corpus, space):
    store = tmp_path / "store"
    told = json.loads(tune(store, corpus.key, space, "--dry-run").stdout)
    assert (told["choices"], told["done"], told["trials"]) == (CHOICES, 0, 20)
    assert told["values"]["generate.f"] == [[2, 2], [3, 3]]
    assert not (store / ".studies").exists()
    made = json.loads(tune(store, corpus.key, space, "--trials", 1).stdout)
    journal = Path(made["study"]).read_bytes()
    assert json.loads(tune(store, corpus.key, space, "--dry-run").stdout)["done"] == 1
    assert Path(made["study"]).read_bytes() == journal
    shown = gsx("tune", "motif-size", "--num-graphs", 300, "--dry-run", "--store", store).stdout
    assert "study: named once the source corpus is prepared" in shown


def test_trials_that_cannot_be_run_are_told_and_passed_over(tmp_path, corpus, space):
    space.write_text(SMALL.replace("[[2, 2], [3, 3]]", "[[2, 2], [1, 1]]"))
    told = json.loads(tune(tmp_path / "store", corpus.key, space, "--trials", 50).stdout)
    reasons = [trial["reason"] for trial in told["trials"] if "reason" in trial]
    assert len(reasons) == CHOICES // 2
    assert reasons[0] == "option 3 splices two graphs or more; give f of 2 at least"
    space.write_text(SMALL.replace("[[2, 2], [3, 3]]", "[[1, 1]]"))
    with pytest.raises(StageError, match="none of 2 trials could be scored; the last: option 3"):
        tune(tmp_path / "store", corpus.key, space, "--trials", 2)


def test_a_corpus_without_ood_validation_is_refused(tmp_path, space):
    corpus = write_small_corpus(tmp_path, unchanged, sizes={"train": 30, "id_val": 10})
    with pytest.raises(UsageError, match="tuning picks by `ood_val`, which motif-size lacks"):
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
def test_impossible_words_are_refused(tmp_path, words, message):
    with pytest.raises(UsageError, match=message):
        gsx("tune", *words, "--store", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[generat]\nf = [[2, 2]]", "`generat` is no section that is tuned. Did you mean `gener"),
        ("f = [2]", "`f` is no section that is tuned"),
        ("[generate]\nfs = [2]", r"space.toml \[generate\]: unknown option `fs`. Did you mean `f`"),
        ("[generate]\nratio = 1.0", r"`ratio` must be a list of values such as \[0.6, 0.8\]"),
        ("[generate]\nratio = []", "`ratio` must be a list of values"),
        ("[generate]\nratio = [-1.0]", "`ratio` = -1.0: ratio must be positive; got -1.0"),
        ("[generate]\nratio = ['much']", "`ratio`: Expected `float | null`, got `str`"),
        ("[generate]\nf = [[2, 2], [2, 2]]", r"`f` lists \[2, 2\] twice"),
        ("[train]\nseed = [0, 1]", "`seed` is not tuned; give it on the command line"),
        ("[train]\nattach = 1", "unknown option `attach`"),
        ("[bridge]\nlatent = 3", r"`latent` must be a list of values such as \[16\]"),
        ("nonsense", "space.toml is not TOML"),
    ],
)
def test_a_bad_file_of_values_is_refused(tmp_path, text, message):
    path = tmp_path / "space.toml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message):
        read_space(path)


def test_the_example_can_be_read(pytestconfig):
    space = read_space(pytestconfig.rootpath / "examples" / "space.toml")
    assert space.values["generate.f"] == ([2, 4], [2, 8])
    assert len(list(space.all_choices())) == 144


def test_a_missing_file_of_values_is_said(tmp_path):
    with pytest.raises(RecipeError, match=r"no file .*none\.toml\. Write one, or leave `--space`"):
        read_space(tmp_path / "none.toml")


def test_the_sets_are_those_of_the_paper():
    assert PAPER["generate.f"] == ([2, 2], [3, 3], [4, 4])
    assert PAPER["generate.ratio"] == (0.6, 0.8, 1.0)
    assert set(PAPER["bridge.attribute_weight"]) == {1.5, 1.0, 0.5, 0.1}
    assert set(PAPER["bridge.kl_weight"]) >= {1.5, 1.0, 0.5, 0.1}
    assert PAPER["train.penalty"] == (1.0, 10.0, 100.0)
    assert len(PAPER["generate.options"]) == 7


@pytest.mark.parametrize(
    ("chosen", "without"),
    [
        ({"generate.options": '"100"'}, {"generate.f", "generate.partners", "bridge.kl_weight"}),
        ({"generate.bridges": '"random"'}, {"bridge.kl_weight", "bridge.attribute_weight"}),
        ({"train.learner": '"erm"'}, {"train.penalty"}),
    ],
)
def test_options_that_do_not_matter_are_not_chosen(chosen, without):
    names = set(Space(PAPER).names(chosen))
    assert not names & without
    assert without <= set(Space(PAPER).names({}))
    assert "bridge.attribute_weight" not in set(Space(PAPER, edge_attributes=False).names({}))


def test_drawn_choices_are_among_all_choices():
    space = Space({**PAPER, "bridge.kl_weight": (1.0,), "bridge.attribute_weight": (1.0,)})
    every = [frozenset(each.items()) for each in space.all_choices()]
    assert len(set(every)) == len(every)
    stream = np.random.default_rng(0)
    assert all(frozenset(space.draw(stream).items()) in set(every) for _ in range(50))
    assert options_of({"generate.f": "[2, 3]", "train.penalty": "1.0"}, "generate") == {"f": [2, 3]}


def test_less_is_better_for_errors(tmp_path):
    space = Space({"train.width": (4, 8, 16)})
    for larger, expected in ((True, 2), (False, 0)):
        path = tmp_path / f"{larger}.journal"
        study = Study(path, space, seed=0, larger_is_better=larger)
        for score in (1.0, 2.0, 3.0):
            study.tell(study.ask(), score, {})
        assert study.best().number == expected
        assert study.ask() is None


def test_a_damaged_study_is_said(tmp_path):
    path = tmp_path / "a.journal"
    path.write_text("no journal\n[]\n")
    with pytest.raises(StoreError, match=r"a\.journal is no study that Optuna .* Move it away"):
        Study(path, Space(PAPER), seed=0, larger_is_better=True)


def test_without_optuna_it_is_said_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UsageError, match=r"tuning needs Optuna .*pip install 'gsx\[pipeline\]'"):
        Study(tmp_path / "a.journal", Space(PAPER), seed=0, larger_is_better=True)


def test_two_do_not_tune_one_study_at_once(tmp_path):
    path = tmp_path / "a.journal"
    with (
        alone(path),
        pytest.raises(UsageError, match=r"another gsx tunes by .*a\.journal"),
        alone(path),
    ):
        pass


def test_a_learner_that_is_named_brings_the_sets_of_the_paper(tmp_path):
    path = tmp_path / "space.toml"
    path.write_text('[train]\nlearner = ["erm", "vrex"]\n')
    assert read_space(path).values == PAPER
    path.write_text('[train]\nlearner = ["flag", "lisa", "irm"]\nmix_alpha = [3.0]\n')
    space = read_space(path)
    found = {name: space.values[name] for name in space.values if name.startswith("train.")}
    assert found == {
        "train.learner": ("flag", "lisa", "irm"),
        "train.ascent_step": (1e-2, 1e-3, 5e-3, 1e-4),
        "train.mix_alpha": (3.0,),
        "train.penalty": (0.1, 1.0, 10.0, 100.0),
    }
    asked = {
        learner: [
            name.removeprefix("train.")
            for name in space.names({"train.learner": json.dumps(learner)})
            if name.startswith("train.")
        ]
        for learner in ("erm", "flag", "lisa", "irm")
    }
    assert asked == {
        "erm": ["learner"],
        "flag": ["learner", "ascent_step"],
        "lisa": ["learner", "mix_alpha"],
        "irm": ["learner", "penalty"],
    }
