"""The command `gsx doctor`: what this machine and this store can do."""

from __future__ import annotations

import dataclasses
import os
import platform
from typing import TYPE_CHECKING

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import print_json, table

if TYPE_CHECKING:
    from gsx.storage.doctor import Check

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@click.command(short_help="Check store, devices, versions and threads.")
@store_option
@json_option
def doctor(*, store: str | None, as_json: bool) -> None:
    """Check what gsx needs of the store and of this machine; exit code 3 when something is bad.

    Nothing is left behind, and no credentials are shown.
    """
    from gsx.storage.artifacts.store import Store
    from gsx.storage.doctor import check_store

    place = Store.at(store).place
    groups = {
        f"store {place.url}": check_store(place),
        "devices": _devices(),
        "versions": [*_versions(), _loops()],
        "threads": _threads(),
    }
    sound = all(check.state != "bad" for checks in groups.values() for check in checks)
    if as_json:
        rows = {name.split()[0]: [dataclasses.asdict(c) for c in cs] for name, cs in groups.items()}
        print_json({"ok": sound, "url": place.url, **rows})
    else:
        for name, checks in groups.items():
            click.echo(name)
            shown = [(f"  {c.name}", c.state, " ".join(c.found.splitlines())) for c in checks]
            click.echo("\n".join(table(shown, ("", "", "")).splitlines()[1:]))
    if not sound:
        raise click.exceptions.Exit(3)


def _devices() -> list[Check]:
    from gsx.storage.doctor import Check

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    checks = [Check("cpu", "ok", f"{cores} cores, {platform.machine()}")]
    try:
        import torch
    except ImportError:
        return [*checks, Check("cuda", "warn", "unknown without torch: pip install 'gsx[learn]'")]
    if not torch.cuda.is_available():
        return [*checks, Check("cuda", "ok", f"none for torch {torch.__version__}; CPUs will do")]
    names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    return [*checks, Check("cuda", "ok", ", ".join(names))]


def _versions() -> list[Check]:
    from gsx.storage.artifacts.run_record import PACKAGES, versions
    from gsx.storage.doctor import Check

    found = versions()
    missing = "not installed: pip install 'gsx[pipeline]'"
    return [
        Check("python", "ok", platform.python_version()),
        *(
            Check(name, "ok" if name in found else "warn", found.get(name, missing))
            for name in PACKAGES
        ),
    ]


def _loops() -> Check:
    from gsx._native import MODULES, compiled
    from gsx.storage.doctor import Check

    if any(compiled(name) is None for name in MODULES):
        return Check("loops", "warn", "NumPy instead: install a C compiler, then gsx again")
    return Check("loops", "ok", "compiled")


def _threads() -> list[Check]:
    from gsx.storage.doctor import Check

    return [Check(name, "ok", os.environ.get(name, "not set")) for name in THREADS]
