"""The Python API: same artifacts as the command line, results that print, errors that explain."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import gsx
from tests.support.artifacts import gsx as command

ROOT = Path(__file__).parents[2]
QUICK = {"epochs": 2, "width": 16}


@pytest.fixture(scope="module")
def flow(tmp_path_factory):
    """A source corpus, an augmented corpus and two models in one store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        store = gsx.Store(tmp_path_factory.mktemp("store"))
        source = gsx.prepare("motif-size", num_graphs=200, store=store, quiet=True)
        corpus = gsx.generate(source, options="001", bridges="none", count=40, quiet=True)
        models = [gsx.train(corpus, seed=seed, quiet=True, **QUICK) for seed in (0, 1)]
        yield store, source, corpus, models


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    """A small table of molecules with two classes."""
    folder = tmp_path_factory.mktemp("molecules")
    lines = (ROOT / "examples" / "molecules.csv").read_text().splitlines(keepends=True)
    (folder / "assay.csv").write_text("".join(lines[:121]))
    return folder / "assay.csv"


def key_of(*words):
    result = command(*words, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)["key"]


# The same engine


def test_results_have_the_keys_of_the_commands(flow, tmp_path):
    _, source, corpus, models = flow
    own = ("--store", tmp_path / "other")
    prepared = key_of("prepare", "motif-size", "--num-graphs", 200, *own)
    words = ("--options", "001", "--bridges", "none", "--count", 40)
    generated = key_of("generate", prepared, *words, *own)
    trained = key_of("train", generated, "--epochs", 2, "--width", 16, *own)
    assert (source.key, corpus.key, models[0].key) == (prepared, generated, trained)
    augmented = key_of("augment", prepared, "drop-edge", "--rate", 0.2, *own)
    assert gsx.augment(source, "drop-edge", rate=0.2, quiet=True).key == augmented


def test_names_of_recipe_files_are_accepted(flow):
    _, source, corpus, models = flow
    same = gsx.generate(source, options="001", bridges="none", count=40, formats="parquet",
                        attributes="learned", quiet=True)  # fmt: skip
    assert same.key == corpus.key
    assert (
        gsx.train(corpus, learner="erm", augmented=True, quiet=True, **QUICK).key == models[0].key
    )
    with pytest.raises(gsx.errors.UsageError, match="give `format` or `formats`, not both"):
        gsx.prepare("motif-size", format="zarr", formats="zarr")


def test_own_molecules_are_prepared_and_read_as_strings(molecules, tmp_path):
    options = {"smiles": molecules, "target": "acid", "domain": "scaffold"}
    mine = gsx.prepare(**options, store=tmp_path, quiet=True)
    own = ("--store", tmp_path / "other")
    words = ("--smiles", molecules, "--target", "acid", "--domain", "scaffold")
    assert mine.key == key_of("prepare", *words, *own)
    smiles = mine.strings("smiles", split="train")
    assert all(isinstance(text, str) for text in smiles)
    frame = mine.to_pandas(split="train")
    assert list(frame["smiles"]) == smiles
    assert set(frame["split"]) == {"train"}
    assert "y_acid" in frame
    with pytest.raises(gsx.errors.UsageError, match=r"no column `smile`.* Did you mean `smiles`"):
        mine.strings("smile")
    with pytest.raises(gsx.errors.UsageError, match=r"`y` has no strings\. .*: .*smiles"):
        mine.strings("y")


def test_a_recipe_file_runs(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        '[prepare]\ndataset = "motif-size"\nnum_graphs = 60\n[augment]\nmethod = "drop-edge"\n'
    )
    results = gsx.run(recipe, store=tmp_path / "store", quiet=True)
    assert list(results) == ["prepare", "augment"]
    assert isinstance(results["augment"], gsx.Corpus)
    assert results["augment"].splits["train"] == 72


@pytest.mark.slow
def test_a_recommendation_is_a_recipe_for_its_corpus_only(flow, tmp_path):
    store, source, corpus, _ = flow
    options = {"recipes": ["combine-same-class"], "graphs": 100}
    advice = gsx.recommend(source, budget="0s", **options, quiet=True)
    own = ("--store", tmp_path)
    screened = key_of("recommend", source.path, "--budget", "0s", "--recipes",
                      "combine-same-class", "--graphs", 100, *own)  # fmt: skip
    assert advice.key == screened
    assert advice.choice in ("none", "combine-same-class")
    assert list(advice.table["recipe"]) == ["none", "combine-same-class"]
    assert f"recommended: {advice.choice}" in repr(advice)
    assert advice.to_dict()["choice"] == advice.evidence.choice
    built = gsx.generate(source, recipe=advice, quiet=True)
    assert (built.key == source.key) == (advice.choice == "none")
    with pytest.raises(gsx.errors.UsageError, match=f"is for corpus {source.key[:12]}, not for"):
        gsx.generate(corpus, recipe=advice)
    assert gsx.generate("motif-size", recipe=advice, store=store, quiet=True).key == built.key
    with pytest.raises(gsx.errors.UsageError, match="not for motif-base"):
        gsx.generate("motif-base", recipe=advice, store=store)


def test_results_go_to_the_store_of_the_input(flow, tmp_path, monkeypatch):
    _, source, corpus, _ = flow
    monkeypatch.chdir(tmp_path)
    gsx.describe(source, quiet=True)
    assert not (tmp_path / "artifacts").exists()
    opened = gsx.open(corpus.path)
    assert opened.store is None
    statistics = gsx.describe(opened, quiet=True)
    assert statistics.artifact.location.local == (tmp_path / "artifacts").joinpath(
        "statistics", statistics.artifact.key[:32]
    )


def test_names_are_searched_in_the_store_of_the_other_input(flow, tmp_path, monkeypatch):
    _, _, corpus, models = flow
    monkeypatch.chdir(tmp_path)
    by_object = gsx.evaluate(models[0], corpus, quiet=True).to_dict()
    assert gsx.evaluate(models[0], corpus.key, quiet=True).to_dict() == by_object
    assert gsx.evaluate(models[0].key, corpus, quiet=True).to_dict() == by_object
    assert len(gsx.predict(models[0].key, corpus, quiet=True)) == len(corpus)
    with pytest.raises(gsx.errors.ArtifactError, match="no model artifact"):
        gsx.evaluate(models[0].key, corpus.key, quiet=True)


# Results


def test_scores_print_as_a_table_and_convert(flow):
    _, _, corpus, models = flow
    scores = gsx.evaluate(models[0], corpus, quiet=True)
    assert repr(scores).splitlines()[1].split()[:4] == ["SPLIT", "WHICH", "GRAPHS", "ACCURACY"]
    frame = scores.to_pandas()
    row = frame[(frame["split"] == "ood_test") & (frame["subset"] == "all")].iloc[0]
    assert row["score"] == scores["ood_test"] == models[0].scores["ood_test"]
    assert row["low"] <= row["score"] <= row["high"]
    assert json.loads(json.dumps(scores.to_dict()))["model_key"] == models[0].key
    assert "<th>split</th>" in scores._repr_html_()
    several = gsx.evaluate(models, corpus, quiet=True)
    mean = np.mean([model.scores["ood_test"] for model in models])
    assert several["ood_test"] == pytest.approx(mean, abs=0.01)
    with pytest.raises(gsx.errors.UsageError, match=r"`ood_tests`. Did you mean `ood_test`\?"):
        scores["ood_tests"]


def test_a_model_knows_how_it_was_trained(flow):
    _, _, corpus, models = flow
    model = models[1]
    assert (model.algorithm, model.seed, model.metric) == ("erm", 1, "accuracy")
    assert model.options["epochs"] == 2
    assert model.name == "motif-size"
    assert repr(model).startswith(f"Model(motif-size {model.key[:12]}: erm, gin, seed 1)")
    assert set(model.to_pandas()["rule"]) >= {"last", "ood_val"}
    assert gsx.train(corpus, seed=np.int64(1), quiet=True, **QUICK).key == model.key


def test_predictions_are_those_of_the_command(flow, tmp_path):
    store, _, corpus, models = flow
    predictions = gsx.predict(models, corpus, split="ood_test", quiet=True)
    frame = predictions.to_pandas()
    assert len(frame) == len(predictions) == corpus.splits["ood_test"]
    written = predictions.write(tmp_path / "api.csv")
    keys = [model.key for model in models]
    result = command("predict", *keys, corpus.key, "--split", "ood_test", "-o",
                     tmp_path / "command.csv", "--store", store.url)  # fmt: skip
    assert result.code == 0, result.err
    assert written.read_bytes() == (tmp_path / "command.csv").read_bytes()
    assert "more rows" in repr(predictions)
    assert predictions.to_dict()["counts"] == predictions.counts
    with pytest.raises(gsx.errors.UsageError, match=r"neither \.csv nor \.parquet"):
        predictions.write(tmp_path / "predictions.txt")


def test_new_molecules_are_predicted(molecules, tmp_path):
    mine = gsx.prepare(smiles=molecules, target="acid", store=tmp_path / "store", quiet=True)
    model = gsx.train(mine, quiet=True, **QUICK)
    table = tmp_path / "new.csv"
    table.write_text("smiles,id\nCCO,a\nnot a molecule,b\n")
    predictions = gsx.predict(model, table, keep=["id"], quiet=True)
    frame = predictions.to_pandas()
    assert list(frame["id"]) == ["a", "b"]
    assert predictions.counts["missing"] == 1
    assert frame["problem"][1]


def test_comparisons_print_a_gain_per_split(flow):
    _, _, corpus, _ = flow
    comparison = gsx.compare(corpus, seeds=2, split="ood_test", quiet=True, **QUICK)
    assert list(comparison.to_pandas()["split"]) == ["ood_test"]
    assert "GAIN" in repr(comparison)
    assert "<th>gain</th>" in comparison._repr_html_()
    document = comparison.to_dict()
    assert len(document["runs"]) == 2


def test_statistics_reports_and_exports(flow, tmp_path):
    _, source, corpus, _ = flow
    statistics = gsx.describe(source, quiet=True)
    assert list(statistics.to_pandas()["split"])[:2] == ["train", "id_val"]
    assert "larger than any training graph" in repr(statistics)
    assert gsx.report(corpus, tmp_path / "report.html", quiet=True).read_text().startswith("<!")
    out = gsx.export(corpus, tmp_path / "out", to="portable", quiet=True)
    assert (out / "README.md").is_file()
    assert gsx.open(out).splits == corpus.splits
    zarr = gsx.export(corpus, to="zarr", quiet=True)
    assert gsx.verify(corpus, zarr, out).ok
    next((tmp_path / "out" / "data").glob("train*")).write_bytes(b"damaged")
    verification = gsx.verify(out)
    assert not verification
    assert "DAMAGED" in repr(verification)
    with pytest.raises(gsx.errors.ArtifactError, match="data/train"):
        verification.check()


def test_stores_list_tag_copy_and_clean(flow, tmp_path):
    store, source, corpus, models = flow
    rows = store.ls(kind="model", sort="date")
    assert {model.key for model in models} <= {row["key"] for row in rows}
    assert models[1].key in [row["key"] for row in store.ls(kind="model", seed=1)]
    assert models[0].key not in [row["key"] for row in store.ls(kind="model", seed=1)]
    assert len(store.ls(kind="model", last=1)) == 1
    assert "KEY" in repr(rows)
    store.tag(corpus, "spliced")
    assert store.tags() == {"spliced": corpus.key}
    assert store.open("spliced").key == corpus.key
    with pytest.raises(gsx.errors.UsageError, match="spliced"):
        store.tag(source, "spliced")
    store.tag(source, "spliced", force=True)
    assert store.open("spliced").key == source.key
    store.untag("spliced")
    assert store.open(models[0].key, kind="model").scores == models[0].scores
    other = gsx.Store(tmp_path / "other")
    assert len(store.push(models[0], other, with_lineage=True)) == 3
    assert other.open(corpus.key[:12]).splits == corpus.splits
    third = gsx.Store(tmp_path / "third")
    assert [row["kind"] for row in third.pull(corpus.key, other)] == ["corpus"]
    assert other.verify().ok
    assert [row["key"] for row in store.lineage(corpus)] == [corpus.key, source.key]
    assert len(third.gc(corpus.key)) == 1
    assert third.open(corpus.key)
    third.gc(corpus.key, delete=True)
    with pytest.raises(gsx.errors.ArtifactError, match="no corpus artifact"):
        third.open(corpus.key)
    assert "<td>model</td>" in store._repr_html_()


def test_labelled_nodes_and_linear_models_print(tmp_path):
    corpus = gsx.prepare("cbas-color", store=tmp_path, quiet=True)
    statistics = gsx.describe(corpus, quiet=True)
    assert "EDGES TO TRAINING" in repr(statistics)
    assert list(statistics.to_pandas()["nodes"]) == list(corpus.nodes.values())
    model = gsx.train(corpus, backbone="node", quiet=True)
    assert "erm, node, seed 0" in repr(model)
    scores = gsx.evaluate(model, corpus, quiet=True)
    assert scores["ood_test"] == pytest.approx(model.scores["ood_test"], abs=1e-3)
    assert "NODES" in repr(scores)


def test_lists_of_datasets_and_recipes():
    assert gsx.datasets()[0]["name"] == "motif-size"
    assert {"grow", "none"} <= {row["name"] for row in gsx.recipes()}
    assert gsx.recipes("grow")[0]["pretrained"] == ["extract"]
    assert "TITLE" in repr(gsx.recipes())
    assert len(gsx.recipes().to_pandas()) == len(gsx.recipes())


# Bad input


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gsx.prepare("motif-size", num_graph=3),
         r"gsx.prepare: unknown option `num_graph`\. Did you mean `num_graphs`\?"),
        (lambda: gsx.prepare("motif-sise"), r"no dataset `motif-sise`\. Did you mean"),
        (lambda: gsx.prepare("motif-size", num_graphs="ten"),
         "`num_graphs` must be a whole number; got 'ten'"),
        (lambda: gsx.prepare("motif-size", seed=True), "`seed` must be a whole number; got True"),
        (lambda: gsx.prepare("motif-size", format="parkay"), "`format` has no value `parkay`"),
        (lambda: gsx.prepare(7), "a dataset is a name; got int"),
        (gsx.prepare, "gsx datasets"),
        (lambda: gsx.prepare("motif-size", smiles="a.csv"), "give exactly one source"),
        (lambda: gsx.generate("motif-size", recipe="gorw"), r"Did you mean `grow`\?"),
        (lambda: gsx.generate("motif-size", recipe=3), "a recipe is a name, `auto` or a Recomm"),
        (lambda: gsx.generate("motif-size", bridges="diffusoin"), r"Did you mean `diffusion`\?"),
        (lambda: gsx.generate([1]), "expected a Corpus, .*; got list"),
        (lambda: gsx.augment("motif-size", "drop-nod"), r"Did you mean `drop-node`\?"),
        (lambda: gsx.recommend("motif-size", budget="soon"), "a budget is a duration"),
        (lambda: gsx.train("motif-size"), "`motif-size` is a dataset, not a corpus"),
        (lambda: gsx.train("key", algorithm="vrx"), r"Did you mean `vrex`\?"),
        (lambda: gsx.train("key", epoch=3), r"unknown option `epoch`\. Did you mean `epochs`\?"),
        (lambda: gsx.train("key", seed="x"), "`seed` must be a whole number"),
        (lambda: gsx.train("key", results="folder"), "belong together"),
        (lambda: gsx.evaluate([], "key"), "no models given"),
        (lambda: gsx.evaluate(3, "key"), "expected a Model"),
        (lambda: gsx.compare("key", seeds="5"), "`seeds` must be a whole number"),
        (lambda: gsx.export("key", "out", to="god"), r"Did you mean `good`\?"),
        (gsx.verify, "no artifacts given"),
        (lambda: gsx.recipes("gro"), r"Did you mean `grow`\?"),
        (lambda: gsx.Store(3), "a store is a directory, a URL or a gsx.Store; got int"),
        (lambda: gsx.Store().ls(sort="dat"), r"Did you mean `date`\?"),
        (lambda: gsx.open(3), "a corpus is named by key, tag, path or URL; got int"),
    ],
)  # fmt: skip
def test_wrong_names_and_types_are_explained(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(gsx.errors.UsageError, match=message):
        call()
    assert list(tmp_path.iterdir()) == []


def test_the_guesses_are_those_of_the_command(tmp_path):
    recipe = tmp_path / "wrong.toml"
    recipe.write_text('[prepare]\ndataset = "motif-size"\nnum_graph = 3\n')
    printed = command("run", recipe).err
    with pytest.raises(gsx.errors.UsageError) as caught:
        gsx.prepare("motif-size", num_graph=3)
    assert str(caught.value).partition(": ")[2] in printed
    printed = command("generate", "motif-size", "--recipe", "gorw", "--store", tmp_path).err
    with pytest.raises(gsx.GsxError) as caught:
        gsx.generate("motif-size", recipe="gorw", store=tmp_path)
    assert printed.strip() == f"Error: {caught.value}"


def test_a_store_without_write_permission_is_an_error_and_stays_as_it_is(tmp_path):
    """The check runs as another user if this one may write everywhere.

    That user may not be able to read the libraries, so they are imported before.
    """
    store = gsx.Store(tmp_path / "store")
    source = gsx.prepare("motif-size", num_graphs=60, store=store, quiet=True)
    before = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    code = textwrap.dedent(
        f"""
        import os
        import gsx

        def calls(url):
            yield lambda: gsx.prepare("motif-size", num_graphs=61, store=url)
            yield lambda: gsx.describe(gsx.open({source.key!r}, store=url))
            yield lambda: gsx.Store(url).tag({source.key!r}, "name")

        warm = {str(tmp_path / "warm")!r}
        gsx.Store(warm).pull({source.path!r})
        for call in calls(warm):
            call()
        os.environ["GSX_CACHE"] = "/nonexistent/cache"
        if os.geteuid() == 0:
            os.seteuid(65534)
        for call in calls({store.url!r}):
            try:
                call()
            except gsx.errors.StoreError as error:
                print(error)
        print(gsx.open({source.key!r}, store={store.url!r}))
        """
    )
    for folder, _, files in os.walk(tmp_path / "store"):
        Path(folder).chmod(0o555)
        for name in files:
            Path(folder, name).chmod(0o444)
    parents = [tmp_path, *tmp_path.parents[:3]]
    modes = [path.stat().st_mode for path in parents]
    try:
        for path in parents:
            path.chmod(0o755)
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
    finally:
        for path, mode in zip(parents, modes, strict=True):
            path.chmod(mode)
        for folder, _, _ in os.walk(tmp_path / "store"):
            Path(folder).chmod(0o755)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Permission denied") == 3, result.stdout
    assert "Corpus(motif-size" in result.stdout
    after = {path: path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file()}
    assert after == before


# Progress and notes


def test_quiet_prints_nothing_and_progress_can_be_forced(tmp_path, capsys):
    gsx.prepare("motif-size", num_graphs=60, store=tmp_path / "a", quiet=True)
    assert capsys.readouterr().err == ""
    gsx.prepare("motif-size", num_graphs=60, store=tmp_path / "b", progress=False)
    printed = capsys.readouterr().err
    assert "prepare: id_test" in printed
    assert "graphs/s" not in printed
    gsx.prepare("motif-size", num_graphs=60, store=tmp_path / "c", progress=True)
    assert "graphs/s" in capsys.readouterr().err


def test_a_notebook_without_widgets_gets_no_warning(monkeypatch):
    import types
    import warnings

    from gsx.api import progress

    for name in [name for name in sys.modules if name.partition(".")[0] == "tqdm"]:
        monkeypatch.delitem(sys.modules, name)
    shell = types.SimpleNamespace(config={"IPKernelApp": {}}, kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert progress.is_interactive()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with progress.progress_bar("step", shown=True) as update:
            update(1, 2)
