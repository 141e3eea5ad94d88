"""Shared fixtures."""

import csv
import gzip
import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from gsx.schema import SPLITS
from gsx.stages.prepare.synthetic import motif
from gsx.storage.artifacts.publish import Identity, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora import corpus_writer
from gsx.storage.corpora.parquet import write_parquet
from gsx.table import concat
from tests.support.remote_stores import faulty_stores, memory, s3, s3_server  # noqa: F401

# Examples are small. Only the first call of a library is slow, so deadlines would fail at random.
settings.register_profile("gsx", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gsx")

MOTIF_GRAPHS = 300
SHARD_GRAPHS = 70
ROW_GROUP = 16
RAW_DATA = os.environ.get("GSX_RAW_DATA")

# Two test processes, each with a thread per core, wait for each other: a training that takes 2 s
# with one thread then takes a minute. torch is imported after this.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Give every test an empty cache, and hide store and raw files of the environment."""
    monkeypatch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.delenv("GSX_STORE", raising=False)
    monkeypatch.delenv("GSX_RAW_DATA", raising=False)


@pytest.fixture(scope="session")
def hiv_folder():
    """Return the folder of raw files; skip the test if it lacks the HIV table."""
    if RAW_DATA is None or not (Path(RAW_DATA) / "hiv" / "HIV.csv.gz").is_file():
        pytest.skip("GSX_RAW_DATA has no hiv/HIV.csv.gz")
    return Path(RAW_DATA)


@pytest.fixture(scope="session")
def raw_file():
    """Return a function from the name of a raw file to its path; it skips if there is none."""

    def find(name):
        if RAW_DATA is None or not (Path(RAW_DATA) / name).is_file():
            pytest.skip(f"GSX_RAW_DATA has no {name}")
        return Path(RAW_DATA) / name

    return find


@pytest.fixture(scope="session")
def hiv_smiles(hiv_folder):
    """Return every hundredth SMILES of the HIV table: 412 valid molecules."""
    with gzip.open(hiv_folder / "hiv" / "HIV.csv.gz", "rt") as stream:
        return [row["smiles"] for row in csv.DictReader(stream)][::100]


def motif_split(split, start, stop):
    """Return graphs ``start:stop`` of a split of Motif."""
    sizes = motif.split_sizes("motif-size", MOTIF_GRAPHS)
    first = sum(sizes[before] for before in SPLITS[: SPLITS.index(split)])
    return motif.build("motif-size", split, start, stop, seed=0, first_graph_id=first)


@pytest.fixture(scope="session")
def motif_table():
    """Return Motif as one table: 180 training graphs, then 30 graphs of every other split."""
    sizes = motif.split_sizes("motif-size", MOTIF_GRAPHS)
    return concat([motif_split(split, 0, size) for split, size in sizes.items()])


@pytest.fixture(scope="session")
def motif_path(tmp_path_factory):
    """Return the path of Motif in both formats: shards of 70 graphs, row groups of 16."""

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
        return build_artifact(store, identity, produce).artifact.location.local
