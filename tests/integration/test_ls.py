"""`gsx ls`: dates, options, scores and tags, with filters and orders."""

import json

import pytest

from gsx.storage.artifacts.store import Store
from tests.support.artifacts import blob, gsx
from tests.support.run_stages import run_stage, unchanged, write_small_corpus

SIZES = {"train": 60, "ood_val": 30, "ood_test": 30}
SMALL = {"width": 8, "batch_size": 30, "source": "prepare"}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Return a store with a corpus and three models: two seeds, and one without test scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        store = tmp_path_factory.mktemp("store")
        corpus = write_small_corpus(store, unchanged, sizes=SIZES)
        options = ({"seed": 0}, {"seed": 1}, {"seed": 1, "evaluate": "validation"})
        models = [
            run_stage(store, "train", {**SMALL, "epochs": 1, **changes}, {"prepare": corpus})
            for changes in options
        ]
        assert gsx("tag", models[1].key, "second", "--store", store).code == 0
        return {"store": store, "corpus": corpus, "models": models}


def rows(filled, *words):
    result = gsx("ls", *words, "--store", filled["store"], "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)["artifacts"]


def test_rows_have_dates_options_scores_and_tags(filled):
    corpus, *models = rows(filled)
    assert corpus["kind"] == "corpus"
    assert [row["options"]["seed"] for row in models] == [0, 1, 1]
    assert models[0]["options"] == {"seed": 0, "width": 8, "epochs": 1, "batch_size": 30}
    assert models[2]["options"]["evaluate"] == "validation"
    for row, model in zip(models, filled["models"], strict=True):
        selected = model.manifest.summary["quality"]["selection"]["last"]
        assert row["scores"] == {k: v for k, v in selected.items() if k != "epoch"}
        assert row["metric"] == "accuracy"
    assert [row["tags"] for row in models] == [[], ["second"], []]
    dates = [row["date"] for row in (corpus, *models)]
    assert dates == sorted(dates)
    assert all(date.endswith("+00:00") for date in dates)


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--kind", "model"], 3),
        (["--stage", "train"], 3),
        (["--name", "motif"], 4),
        (["--name", "secon"], 1),
        (["--name", "nothing"], 0),
        (["--option", "seed=1"], 2),
        (["--option", "seed=1", "--option", "evaluate=validation"], 1),
        (["--option", "batch-size=30"], 3),
        (["--last", "2"], 2),
    ],
)
def test_filters(filled, words, count):
    assert len(rows(filled, *words)) == count


def test_orders(filled):
    by_score = rows(filled, "--kind", "model", "--sort", "score")
    scores = [row["scores"]["ood_val"] for row in by_score]
    assert scores == sorted(scores)
    newest = rows(filled, "--sort", "date", "--reverse")
    assert [row["date"] for row in newest] == sorted((row["date"] for row in newest), reverse=True)
    keys = [row["key"] for row in rows(filled, "--sort", "key")]
    assert keys == sorted(keys)


def test_the_table_shows_what_distinguishes_artifacts(filled, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    header, *lines = gsx("ls", "--kind", "model", "--store", filled["store"]).out.splitlines()
    assert header.split() == ["KEY", "DATE", "NAME", "TAGS", "OOD_VAL", "OOD_TEST", "OPTIONS"]
    assert lines[0].endswith("  seed=0")
    assert lines[1].endswith("  seed=1")
    assert lines[2].endswith("  seed=1 evaluate=validation")
    assert "second" in lines[1]
    long = gsx("ls", "--long", "--store", filled["store"]).out
    assert "seed=0 width=8 epochs=1 batch_size=30" in long
    assert "train v3" in long


def test_the_table_fits_into_80_columns(filled, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = gsx("ls", "--store", filled["store"]).out.splitlines()
    assert max(map(len, lines)) <= 80


def test_artifacts_without_a_date_have_that_of_their_manifest(tmp_path):
    artifact = blob(Store.at(tmp_path))
    (artifact.location.local / "run.json").unlink()
    (row,) = rows({"store": tmp_path})
    assert row["date"].startswith("20")
    assert (row["options"], row["scores"]) == ({"size": 1}, {})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kind", "corpsu"], "no artifacts of the kind `corpsu` exist. Did you mean `corpus`?"),
        (["--option", "seed"], "--option takes NAME=VALUE"),
        (["--last", "0"], "--last must be at least 1"),
    ],
)
def test_wrong_options_are_usage_errors(filled, words, message):
    result = gsx("ls", *words, "--store", filled["store"])
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_an_empty_listing_says_why(filled, tmp_path):
    assert "`gsx prepare` builds one" in gsx("ls", "--store", tmp_path).err
    empty = gsx("ls", "--name", "nothing", "--store", filled["store"]).err
    assert "meet these conditions; `gsx ls` lists all" in empty


def test_the_name_is_not_repeated_as_an_option(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text(
            "smiles,y\n" + "".join(f"{'C' * (n + 1)},{n % 2}\n" for n in range(60))
        )
        made = gsx("prepare", "--smiles", tmp_path / f"{name}.csv", "--target", "y", "--store",
                   tmp_path / "store")  # fmt: skip
        assert made.code == 0, made.err
    listed = gsx("ls", "--store", tmp_path / "store").out
    assert " one" in listed
    assert "name=" not in listed
