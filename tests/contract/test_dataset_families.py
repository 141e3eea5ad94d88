"""Rules that every dataset family keeps."""

import pytest

from gsx.errors import GsxError, UsageError
from gsx.pipeline.recipe import parse_config
from gsx.schema import SPLITS
from gsx.stages.prepare.stage import FAMILIES, PrepareConfig, family_of, metadata_of, resolve
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.run_stages import run_stage

LISTED = [name for family in FAMILIES if family.listed for name in family.names]
SYNTHETIC = [name for name in LISTED if not metadata_of(name).raw]
SIZES = {"motif": 40, "motif2": 40, "fsmotif": 40}
"""Number of graphs, by the start of the name; other datasets set it themselves."""


def options(name):
    size = SIZES.get(name.split("-")[0])
    return {"dataset": name} if size is None else {"dataset": name, "num_graphs": size}


def test_names_and_aliases_are_unique():
    names = [name for family in FAMILIES for name in (*family.names, *family.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", LISTED)
def test_metadata_is_available_without_files(name):
    metadata = metadata_of(name)
    assert metadata.shift
    assert set(metadata.counts) <= set(SPLITS)
    assert sum(metadata.counts.values()) > 0


@pytest.mark.parametrize("name", [name for name in LISTED if metadata_of(name).raw])
def test_a_missing_raw_file_is_named(name, tmp_path):
    config = PrepareConfig(dataset=name, raw=str(tmp_path))
    with pytest.raises(UsageError) as error:
        resolve(config)
    message = str(error.value)
    assert metadata_of(name).raw[0].paths[0] in message
    assert "--raw DIR" in message


@pytest.mark.parametrize("name", LISTED)
def test_an_unknown_option_is_rejected(name):
    with pytest.raises(GsxError, match="no_such_option"):
        parse_config("prepare", {**options(name), "no_such_option": 1}, "test")


@pytest.mark.parametrize("name", LISTED)
def test_an_invalid_number_of_graphs_is_rejected(name):
    with pytest.raises(UsageError, match="num_graphs"):
        family_of(name).size(name, -1)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_synthetic_dataset_is_deterministic_and_valid(name, tmp_path):
    first, second = (
        run_stage(tmp_path / folder, "prepare", options(name), {}) for folder in ("a", "b")
    )
    assert first.manifest.digest == second.manifest.digest
    assert verify_artifact(first.location).problems == ()
    other = run_stage(tmp_path / "a", "prepare", {**options(name), "seed": 1}, {})
    assert other.manifest.digest != first.manifest.digest


@pytest.mark.parametrize("name", SYNTHETIC)
def test_shard_boundaries_do_not_change_the_graphs(name, tmp_path):
    from gsx.storage.corpora.corpus import Corpus

    whole = Corpus(run_stage(tmp_path, "prepare", options(name), {}))
    small = Corpus(run_stage(tmp_path, "prepare", {**options(name), "shard_graphs": 3}, {}))
    assert small.table().equals(whole.table())
    assert len(list(Store.at(tmp_path).artifacts())) == 2
