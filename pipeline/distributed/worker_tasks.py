"""What a worker does: open the workshop of a job once, then make the shards it is asked for.

Or it reads blocks of raw data that it is sent, and sends back what they hold.

Nothing here knows how the worker was asked. Inputs are found by path or URL and must give the key
of the job; credentials come from the worker's own environment.
"""

from __future__ import annotations

import functools
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from gsx.errors import StoreError, UsageError
from gsx.pipeline.code_digest import code_digest
from gsx.pipeline.distributed.build_shards import Failure, Job, Result, keep_memory, make_one
from gsx.pipeline.plan import Step, identity_of
from gsx.pipeline.stage_order import stage_named
from gsx.stages.prepare.array_blocks import pack, unpack
from gsx.stages.prepare.block_executor import reader
from gsx.stages.sharded_build import ShardPlan, Workshop
from gsx.storage.artifacts.draft import Draft
from gsx.storage.artifacts.location import Place
from gsx.storage.artifacts.run_record import versions
from gsx.storage.artifacts.store import Artifact
from gsx.storage.artifacts.worker_upload import ship, shipped

DECISIVE = ("gsx", "numpy", "pyarrow", "rdkit", "torch", "zarr")
"""Packages whose other versions may give other bytes."""
_opened: dict[bytes, tuple[Job, Workshop, list[ShardPlan]]] = {}


def decisive_versions() -> dict[str, str]:
    """Return the versions here of all packages that decide bytes."""
    return {name: version for name, version in versions().items() if name in DECISIVE}


def make_shard(job: bytes, number: int, data: bytes, scratch: str) -> Result:
    """Make one shard of a job, which is JSON; failures are results too."""
    del data
    return answered(number, lambda: _make(job, number, Path(scratch)))


def read_block(job: bytes, number: int, data: bytes, scratch: str) -> Result:
    """Return what is read of one block of raw data: the name of a reader, a line end, the block."""
    del scratch

    def read() -> Result:
        _check(job)
        name, _, block = data.partition(b"\n")
        return Result(number=number, data=pack(reader(name.decode())(unpack(block))))

    return answered(number, read)


def answered(number: int, do: Callable[[], Result]) -> Result:
    """Return what ``do`` returns, or why it could not, with the memory this process has had."""
    try:
        result = do()
    except Exception as error:
        result = Result(number=number, failure=Failure.of(error))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_mib = round(peak / (1024 if sys.platform != "darwin" else 1 << 20), 1)
    return msgspec.structs.replace(result, peak_mib=peak_mib)


@functools.lru_cache(maxsize=1)
def _check(data: bytes) -> None:
    """Refuse a job that other code or other packages ask for."""
    job = msgspec.json.decode(data, type=Job)
    require_versions(job)
    stage = stage_named(job.stage)
    require_source(job, code_digest([stage.module]))


def _make(data: bytes, number: int, scratch: Path) -> Result:
    job, shop, plans = _open(data)
    if job.target is None or job.records is None:
        draft = Draft(Path(job.draft))
        _require_draft(draft, job)
        return make_one(shop, plans[number], number, draft)
    target, records = Place.at(job.target), Place.at(job.records)
    names = plans[number].units
    found = shipped(names, target, records, job.source)
    if found is None:
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            draft = Draft(Path(folder) / "draft")
            draft.prepare(job.source)
            made = make_one(shop, plans[number], number, draft)
            found = ship(draft, names, target, records, made.facts, job.source)
        result = msgspec.structs.replace(made, units=found.units)
    else:
        size = sum(entry.size for unit in found.units for entry in unit.files.values())
        result = Result(number=number, facts=found.facts, units=found.units, size=size, kept=True)
    return result


def dask_setup(_: object) -> None:
    """Leave interrupts to whoever started this worker, as Dask loads this module first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _open(data: bytes) -> tuple[Job, Workshop, list[ShardPlan]]:
    """Open the workshop of a job; the last one stays open, no more."""
    if data not in _opened:
        _opened.clear()
        keep_memory()
        job = msgspec.json.decode(data, type=Job)
        require_versions(job)
        stage = stage_named(job.stage)
        config = msgspec.convert(job.config, stage.config)
        inputs = {role: Artifact.open(Place.at(url)) for role, url in job.inputs.items()}
        identity = identity_of(Step(stage, config, stage.inputs_of(config)), inputs)
        require_source(job, identity.source)
        if identity.key != job.key or stage.workshop is None:
            raise StoreError(
                f"this worker finds other inputs of {job.stage} at {', '.join(job.inputs.values())}"
                " than whoever asked. All machines must reach the same store by the same name."
            )
        shop = stage.workshop(config, inputs)
        _opened[data] = job, shop, list(shop.plans)
    return _opened[data]


def require_versions(job: Job) -> None:
    """Refuse a job where packages that decide bytes have other versions here."""
    here = decisive_versions()
    for name, wanted in job.versions.items():
        if here.get(name) != wanted:
            raise UsageError(
                f"this worker has {name} {here.get(name, 'not at all')}, whoever asked has "
                f"{wanted}; the same bytes are promised for the same versions only. Install "
                "constraints.txt on all machines."
            )


def require_source(job: Job, source: str) -> None:
    """Refuse a job where the code here is other code."""
    if source != job.source:
        raise UsageError(
            f"this worker has other code of {job.stage} than whoever asked. Install the same "
            "gsx on all machines and start the workers again."
        )


def _require_draft(draft: Draft, job: Job) -> None:
    try:
        same = (draft.root / "source").read_text() == job.source
    except FileNotFoundError:
        same = False
    if not same:
        raise StoreError(
            f"this worker does not see {draft.root}. Workers on other machines need a store that "
            "all of them reach by the same name: a shared folder, or an object store."
        )
