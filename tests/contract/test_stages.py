"""Rules that every stage keeps: deterministic, atomic, traceable, and clear about bad input."""

import shutil

import pytest

from gsx.errors import GsxError
from gsx.pipeline.code_digest import code_digest
from gsx.pipeline.recipe import parse_config
from gsx.pipeline.stage_order import STAGES, json_files, stage_named
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.verify_corpus import verify_artifact
from tests.support.hostile_artifacts import rewrite_manifest
from tests.support.run_stages import run_stage, unchanged, write_small_corpus

OPTIONS = {
    "prepare": {"dataset": "motif-size", "num_graphs": 60},
    "convert": {"formats": ["zarr"]},
    "describe": {},
    "extract": {"node_epochs": 1, "set_epochs": 1},
    "bridge": {"epochs": 1},
    "mask": {"steps": 5},
    "recommend": {"budget": 0, "recipes": ["drop-node"]},
    "generate": {"options": "011"},
    "augment": {"method": "drop-edge"},
    "train": {"source": "prepare", "width": 8, "epochs": 1, "batch_size": 20},
}
"""Small configs, one per stage."""
COLORED = {"dataset": "fsmotif-size-color", "num_graphs": 60}
NAMES = [stage.name for stage in STAGES]


class BrokenDraftError(Exception):
    """Raised when a draft records its first file."""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Every stage, run once in one store: its artifact and its inputs, by stage name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSX_CACHE", str(tmp_path_factory.mktemp("cache")))
        folder = tmp_path_factory.mktemp("store")
        artifacts, inputs = {}, {}
        for name in NAMES:
            config = parse_config(name, OPTIONS[name], "test")
            needed = stage_named(name).inputs_of(config).values()
            inputs[name] = {step: artifacts[step] for step in needed}
            if name == "mask":  # features must depend on the environment
                inputs[name] = {"prepare": run_stage(folder, "prepare", COLORED, {})}
            artifacts[name] = run_stage(folder, name, OPTIONS[name], inputs[name])
        return artifacts, inputs


def test_every_stage_has_a_config_here():
    assert set(OPTIONS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_stage_has_one_way_to_run(name):
    stage = stage_named(name)
    ways = (stage.run, stage.run_with_executor, stage.open_sharded_build)
    assert sum(way is not None for way in ways) == 1


@pytest.mark.parametrize("name", NAMES)
def test_resolving_a_resolved_config_changes_nothing(name):
    stage = stage_named(name)
    config = parse_config(name, OPTIONS[name], "test")
    assert stage.resolve(config) == config


@pytest.mark.parametrize("name", NAMES)
def test_the_same_config_gives_the_same_bytes(name, built, tmp_path):
    artifacts, inputs = built
    again = run_stage(tmp_path, name, OPTIONS[name], inputs[name])
    assert again.key == artifacts[name].key
    assert again.manifest.digest == artifacts[name].manifest.digest


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_records_parents_and_config(name, built):
    artifacts, inputs = built
    manifest = artifacts[name].manifest
    assert manifest.stage == name
    assert manifest.kind == stage_named(name).kind
    parents = {parent.digest for parent in manifest.parents}
    assert parents == {artifact.manifest.digest for artifact in inputs[name].values()}


@pytest.mark.parametrize("name", NAMES)
def test_the_run_record_holds_the_code_digest_of_the_stage(name, built):
    import json

    artifacts, _ = built
    record = json.loads(artifacts[name].location.read_bytes("run.json", limit=1 << 20))
    assert record["source"] == code_digest([stage_named(name).module])


@pytest.mark.parametrize("name", NAMES)
def test_every_artifact_verifies(name, built):
    artifacts, _ = built
    assert verify_artifact(artifacts[name].location, json_files=json_files).problems == ()


@pytest.mark.parametrize("name", NAMES)
def test_every_json_file_has_a_type(name, built):
    artifacts, _ = built
    listed = {path for path in artifacts[name].manifest.files if path.endswith(".json")}
    assert {path for path in listed if not path.startswith("zarr/")} == json_files(
        stage_named(name).kind
    ).keys()


@pytest.mark.parametrize("content", [b"no JSON", b'"text"', b"[[[]]]", b'{"a": NaN}', None])
@pytest.mark.parametrize("name", NAMES)
def test_verification_reads_every_json_file_and_every_file_of_arrays(
    name, content, built, tmp_path
):
    artifacts, _ = built
    for path in artifacts[name].manifest.files:
        if not path.endswith((".json", ".safetensors")):
            continue
        copy = shutil.copytree(artifacts[name].location.local, tmp_path / path.replace("/", "-"))
        if content is None:
            (copy / path).unlink()
        else:
            (copy / path).chmod(0o644)
            (copy / path).write_bytes(content)
        rewrite_manifest(copy)
        problems = verify_artifact(Location.at(copy), json_files=json_files).problems
        if content is not None or path.endswith(".json"):
            assert problems, path
        if not path.startswith("zarr/"):
            assert {problem.path for problem in problems} <= {path}


@pytest.mark.parametrize("name", NAMES)
def test_a_failure_publishes_nothing_and_the_next_run_succeeds(name, built, tmp_path, monkeypatch):
    artifacts, inputs = built
    from gsx.storage.artifacts.draft import Draft

    def fail(*_, **__):
        raise BrokenDraftError

    with monkeypatch.context() as patch:
        patch.setattr(Draft, "record", fail)
        # Builds in shards report the failure of a shard as a RuntimeError with its traceback.
        with pytest.raises((BrokenDraftError, RuntimeError)):
            run_stage(tmp_path, name, OPTIONS[name], inputs[name])
    assert list(Store.at(tmp_path).artifacts()) == []
    again = run_stage(tmp_path, name, OPTIONS[name], inputs[name])
    assert again.manifest.digest == artifacts[name].manifest.digest


@pytest.mark.parametrize("sizes", [{"train": 0, "ood_val": 3}, {"train": 1}], ids=["empty", "one"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "prepare"])
def test_tiny_corpora_give_an_artifact_or_a_clear_error(name, sizes, built, tmp_path):
    _, inputs = built
    tiny = write_small_corpus(tmp_path, unchanged, sizes=sizes)
    given = {**inputs[name], "prepare": tiny}
    try:
        artifact = run_stage(tmp_path, name, OPTIONS[name], given)
    except GsxError:
        assert [found.key for found in Store.at(tmp_path).artifacts()] == [tiny.key]
    else:
        assert verify_artifact(artifact.location).problems == ()
