"""Functions that run on workers: build a shard of a job, or process a block of raw data.

They do not depend on Dask. A worker opens the build of a job once and then builds the shards it
gets. Inputs are found by path or URL and must give the key of the job. Credentials come from the
worker's own environment.
"""

from __future__ import annotations

import functools
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from gsx import typed_values
from gsx.errors import StoreError, UsageError
from gsx.escape import redact_urls
from gsx.pipeline.code_digest import code_digest
from gsx.pipeline.distributed.build_shards import build_shard
from gsx.pipeline.distributed.malloc import keep_freed_memory
from gsx.pipeline.distributed.tasks import Failure, Job, Result
from gsx.pipeline.plan import Step, identity_of
from gsx.pipeline.stage_order import stage_named
from gsx.stages.array_blocks import pack, unpack
from gsx.stages.block_executor import resolve_function
from gsx.stages.sharded_build import ShardedBuild, ShardPlan
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.location import Location
from gsx.storage.artifacts.run_record import package_versions, peak_memory_mib
from gsx.storage.artifacts.store import Artifact
from gsx.storage.artifacts.worker_upload import find_uploaded_shard, upload_shard

PINNED_PACKAGES = ("gsx", "numpy", "pyarrow", "rdkit", "torch", "zarr")
"""Packages whose version can change the bytes of a result."""
_open_builds: dict[bytes, tuple[Job, ShardedBuild, list[ShardPlan]]] = {}


def pinned_versions() -> dict[str, str]:
    """Return the installed versions of all packages that can change the bytes of a result."""
    versions = package_versions()
    return {name: version for name, version in versions.items() if name in PINNED_PACKAGES}


def build_shard_task(job: bytes, number: int, data: bytes, scratch: str) -> Result:
    """Build one shard of a job, given as JSON. A failure is a result too."""
    del data
    return run_task(number, lambda: _build_shard(job, number, Path(scratch)))


def process_block_task(job: bytes, number: int, data: bytes, scratch: str) -> Result:
    """Apply a function to one block of raw data.

    ``data`` is the reference of the function, a newline and the packed block.
    """
    del scratch

    def process() -> Result:
        _check_job(job)
        reference, _, block = data.partition(b"\n")
        function = resolve_function(reference.decode())
        return Result(number=number, data=pack(function(unpack(block))))

    return run_task(number, process)


def run_task(number: int, function: Callable[[], Result]) -> Result:
    """Call ``function`` and return its result or its failure, with this process's peak memory."""
    try:
        result = function()
    except Exception as error:
        result = Result(number=number, failure=Failure.of(error))
    return msgspec.structs.replace(result, peak_mib=round(peak_memory_mib(), 1))


@functools.lru_cache(maxsize=1)
def _check_job(data: bytes) -> None:
    """Reject a job of a client with different code or package versions."""
    job = typed_values.decode_json(data, Job)
    require_same_versions(job)
    stage = stage_named(job.stage)
    require_same_code(job, code_digest([stage.module]))


def _build_shard(data: bytes, number: int, scratch: Path) -> Result:
    """Build a shard into the shared draft, or build it locally and upload it to the target."""
    job, sharded_build, plans = _open_build(data)
    plan = plans[number]
    if job.target is None or job.records is None:
        draft = Draft(Path(job.draft))
        _require_draft(draft, job)
        return build_shard(sharded_build, plan, number, draft)
    target, records = Location.at(job.target), Location.at(job.records)
    uploaded = find_uploaded_shard(plan.units, target, records, job.source)
    if uploaded is not None:
        size = sum(entry.size for unit in uploaded.units for entry in unit.files.values())
        return Result(
            number=number, stats=uploaded.stats, units=uploaded.units, size=size, reused=True
        )
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        draft = Draft(Path(folder) / "draft")
        draft.prepare(job.source)
        result = build_shard(sharded_build, plan, number, draft)
        uploaded = upload_shard(draft, plan.units, target, records, result.stats, job.source)
    return msgspec.structs.replace(result, units=uploaded.units)


def dask_setup(_: object) -> None:
    """Ignore interrupts when Dask preloads this module: the client ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _open_build(data: bytes) -> tuple[Job, ShardedBuild, list[ShardPlan]]:
    """Open the build of a job; only the most recent one is kept in memory."""
    if data not in _open_builds:
        _open_builds.clear()
        keep_freed_memory()
        job = typed_values.decode_json(data, Job)
        require_same_versions(job)
        stage = stage_named(job.stage)
        config = typed_values.convert(job.config, stage.config)
        inputs = {role: Artifact.open(Location.at(url)) for role, url in job.inputs.items()}
        identity = identity_of(Step(stage, config, stage.inputs_of(config)), inputs)
        require_same_code(job, identity.source)
        if identity.key != job.key or stage.open_sharded_build is None:
            raise StoreError(
                f"this worker finds different inputs of `{job.stage}` than the client at "
                f"{redact_urls(', '.join(job.inputs.values()))}. All machines must reach "
                "the same store under the same name."
            )
        sharded_build = stage.open_sharded_build(config, inputs)
        _open_builds[data] = job, sharded_build, list(sharded_build.plans)
    return _open_builds[data]


def require_same_versions(job: Job) -> None:
    """Reject a job if a package that can change bytes has a different version here."""
    installed = pinned_versions()
    for name, required in job.versions.items():
        if installed.get(name) != required:
            state = f"has version {installed[name]}" if name in installed else "is not installed"
            raise UsageError(
                f"{name} {state} on this worker; the client has {required}. Results are "
                "reproducible for equal versions only. Install constraints.txt on all machines."
            )


def require_same_code(job: Job, source: str) -> None:
    """Reject a job if the code of its stages is different here."""
    if source != job.source:
        raise UsageError(
            f"this worker runs a different version of the `{job.stage}` code than the client. "
            "Install the same gsx on all machines and restart the workers."
        )


def _require_draft(draft: Draft, job: Job) -> None:
    """Reject a job if its draft is not reachable from this worker."""
    try:
        same = (draft.root / "source").read_text() == job.source
    except FileNotFoundError:
        same = False
    if not same:
        raise StoreError(
            f"this worker cannot access {draft.root}. Workers on other machines need a store that "
            "all machines reach under the same name: a shared directory, or an object store."
        )
