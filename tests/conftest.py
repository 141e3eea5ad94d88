import csv
import gzip
import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gsx.schema import SPLITS
from gsx.stages.prepare.synthetic import motif
from gsx.storage.artifacts.publish import Identity, build
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora import corpus_writer
from gsx.storage.corpora.parquet import write_parquet
from gsx.table import concat

# Examples are small; what is slow is the first call of a library, which is not what is tested.
settings.register_profile("gsx", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gsx")

MOTIF_GRAPHS = 300
SHARD_GRAPHS = 70
ROW_GROUP = 16
RAW_DATA = os.environ.get("GSX_RAW_DATA")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Give every test a cache of its own, and no store or raw files from the environment."""
    monkeypatch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("GSX_STORE", raising=False)
    monkeypatch.delenv("GSX_RAW_DATA", raising=False)


@pytest.fixture(scope="session")
def hiv_folder():
    """The folder of raw files, if it holds the HIV table."""
    if RAW_DATA is None or not (Path(RAW_DATA) / "hiv" / "HIV.csv.gz").is_file():
        pytest.skip("GSX_RAW_DATA names no folder with hiv/HIV.csv.gz")
    return Path(RAW_DATA)


@pytest.fixture(scope="session")
def raw_file():
    """Give the path of a file in the folder of raw files; skip the test where it is not there."""

    def find(name):
        if RAW_DATA is None or not (Path(RAW_DATA) / name).is_file():
            pytest.skip(f"GSX_RAW_DATA names no folder with {name}")
        return Path(RAW_DATA) / name

    return find


@pytest.fixture(scope="session")
def hiv_smiles(hiv_folder):
    """Every hundredth molecule of the HIV table: 412 SMILES, all readable."""
    with gzip.open(hiv_folder / "hiv" / "HIV.csv.gz", "rt") as stream:
        return [row["smiles"] for row in csv.DictReader(stream)][::100]


def motif_split(split, start, stop):
    sizes = motif.split_sizes("motif-size", MOTIF_GRAPHS)
    first = sum(sizes[before] for before in SPLITS[: SPLITS.index(split)])
    return motif.build("motif-size", split, start, stop, seed=0, first_graph_id=first)


@pytest.fixture(scope="session")
def motif_table():
    """Motif in one table: 180 graphs for training and 30 of every other split, in this order."""
    sizes = motif.split_sizes("motif-size", MOTIF_GRAPHS)
    return concat([motif_split(split, 0, size) for split, size in sizes.items()])


@pytest.fixture(scope="session")
def motif_path(tmp_path_factory):
    """Motif as an artifact in both formats, of shards of 70 graphs in row groups of 16."""

    def produce(draft):
        sizes = motif.split_sizes("motif-size", MOTIF_GRAPHS)
        return corpus_writer.write_corpus(
            draft,
            motif.corpus_info("motif-size"),
            corpus_writer.plan_shards(sizes, SHARD_GRAPHS),
            lambda shard: motif_split(shard.split, shard.start, shard.stop),
            formats=("parquet", "zarr"),
        )

    identity = Identity(kind="corpus", stage="prepare", stage_version=1, config={"name": "motif"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(corpus_writer, "write_parquet", partial(write_parquet, row_group=ROW_GROUP))
        store = Store.at(tmp_path_factory.mktemp("store"))
        return build(store, identity, produce).artifact.place.local
