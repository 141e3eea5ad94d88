"""Calls of the API with their types. mypy checks this file (test_types.py); nothing runs it.

A line with ``type: ignore`` is an error that mypy must find: an unused one fails, too.
"""

from pathlib import Path
from typing import Any, assert_type

from torch_geometric.data import Data

import gsx
from gsx.api.display import Rows
from gsx.table import GraphTable


def build() -> gsx.Corpus:
    source = gsx.prepare("motif-size", num_graphs=3000, store=gsx.Store("s3://bucket/prefix"))
    assert_type(source, gsx.Corpus)
    mine = gsx.prepare(smiles=Path("assay.csv"), target=["active"], ratios=(0.8, 0.1, 0.1))
    advice = gsx.recommend(mine, budget="5m", recipes=["grow"])
    assert_type(advice, gsx.Recommendation)
    assert_type(advice.choice, str)
    assert_type(gsx.generate(mine, recipe=advice), gsx.Corpus)
    assert_type(gsx.augment(mine, "drop-edge", rate=0.2), gsx.Corpus)
    gsx.generate("motif-size", grow=4.0, bridges="none", f=(2, 4), feature_range="0..1", workers=2)
    gsx.prepare("motif-size", num_graph=3000)  # type: ignore[call-overload]
    gsx.prepare("motif-size", smiles="assay.csv")  # type: ignore[call-overload]
    gsx.prepare(smiles="assay.csv", num_graphs=3)  # type: ignore[call-overload]
    gsx.generate(mine, briges="none")  # type: ignore[call-arg]
    gsx.generate(mine, bridges="nun")  # type: ignore[arg-type]
    gsx.generate(mine, recipe=3)  # type: ignore[arg-type]
    gsx.augment(mine, "drop-nodes")  # type: ignore[arg-type]
    return mine


def learn(corpus: gsx.Corpus) -> None:
    model = gsx.train(corpus, algorithm="vrex", seed=1, epochs=20, penalty=10.0)
    assert_type(model, gsx.Model)
    assert_type(model.scores, dict[str, float | None])
    scores = gsx.evaluate([model, "best"], corpus, selection="last")
    assert_type(scores, gsx.Scores)
    assert_type(scores["ood_test"], float | None)
    assert_type(scores.to_dict(), dict[str, Any])
    predictions = gsx.predict(model, "new.csv", keep=["id"])
    assert_type(predictions.write("out.parquet"), Path)
    assert_type(gsx.compare(corpus, seeds=5, epochs=3), gsx.Comparison)
    gsx.train(corpus, algorithm="vrx")  # type: ignore[arg-type]
    gsx.train(corpus, epochs="ten")  # type: ignore[arg-type]
    gsx.evaluate(3, corpus)  # type: ignore[arg-type]


def share(corpus: gsx.Corpus) -> None:
    assert_type(gsx.report(corpus, "report.html"), Path)
    assert_type(gsx.export(corpus, "out", to="good"), Path)
    assert_type(gsx.export(corpus, "out"), Path)
    assert_type(gsx.export(corpus, to="zarr"), gsx.Corpus)
    assert_type(gsx.verify(corpus).ok, bool)
    assert_type(gsx.datasets(), Rows)
    store = gsx.Store()
    assert_type(store.open("key"), gsx.Corpus)
    assert_type(store.open("key", kind="model"), gsx.Model)
    assert_type(store.open("key", kind="recommendation"), gsx.Recommendation)
    assert_type(store.tags(), dict[str, str])
    gsx.export(corpus, to="good")  # type: ignore[call-overload]
    store.open("key", kind="modle")  # type: ignore[call-overload]


def read(corpus: gsx.Corpus) -> None:
    assert_type(corpus.table(split="train", origin="source"), GraphTable)
    assert_type(corpus.strings("smiles"), list[str])
    assert_type(corpus.name, str)
    one: Data = corpus[0]
    several: list[Data] = corpus[0:3]
    assert one is several[0]
    try:
        gsx.open("key", store="artifacts")
    except gsx.errors.UsageError as error:
        assert_type(error.exit_code, int)
    except gsx.GsxError:
        raise
