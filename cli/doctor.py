"""`gsx doctor`: check the store and this machine."""

from __future__ import annotations

import dataclasses
import os
import platform
from typing import TYPE_CHECKING

import click

from gsx.cli.options import json_option, store_option
from gsx.cli.output import echo, format_table, print_json
from gsx.errors import UsageError

if TYPE_CHECKING:
    from gsx.storage.doctor import Check

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@click.command(short_help="Check the store, devices, versions and threads.")
@click.option(
    "--report",
    "as_report",
    is_flag=True,
    help="Print the text for a bug report: versions and platform, no paths.",
)
@store_option
@json_option
def doctor(*, store: str | None, as_report: bool, as_json: bool) -> None:
    """Check the store and this machine for everything that gsx needs.

    Exit code 3 if a check fails. Test files are removed, and no credentials are printed.
    """
    if as_report:
        if as_json:
            raise UsageError("--report and --json exclude each other; give one of them")
        echo(*_bug_report())
        return
    from gsx.storage.artifacts.store import Store
    from gsx.storage.doctor import check_store

    location = Store.at(store).location
    groups = {
        f"store {location.url}": check_store(location),
        "devices": _check_devices(),
        "versions": [*_check_versions(), _check_extensions()],
        "threads": _check_threads(),
    }
    ok = all(check.state != "bad" for checks in groups.values() for check in checks)
    if as_json:
        rows = {
            name.split()[0]: [dataclasses.asdict(check) for check in checks]
            for name, checks in groups.items()
        }
        print_json({"ok": ok, "url": location.url, **rows})
    else:
        for name, checks in groups.items():
            echo(name)
            lines = [(f"  {c.name}", c.state, " ".join(c.found.splitlines())) for c in checks]
            echo(*format_table(lines, ("", "", ""))[1:])
    if not ok:
        raise click.exceptions.Exit(3)


def _bug_report() -> list[str]:
    """Return lines with versions, platform and threads; they name no store, path or user."""
    checks = [*_check_versions(), *_check_devices(), _check_extensions(), *_check_threads()]
    rows = [(check.name, " ".join(check.found.splitlines())) for check in checks]
    return format_table([("platform", platform.platform()), *rows], ("", ""))[1:]


def _check_devices() -> list[Check]:
    from gsx.storage.doctor import Check

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    checks = [Check("cpu", "ok", f"{cores} cores, {platform.machine()}")]
    try:
        import torch
    except ImportError:
        return [*checks, Check("cuda", "warn", "unknown without torch: pip install 'gsx[learn]'")]
    if not torch.cuda.is_available():
        message = f"no GPU for torch {torch.__version__}; the CPU is used"
        return [*checks, Check("cuda", "ok", message)]
    names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())]
    return [*checks, Check("cuda", "ok", ", ".join(names))]


def _check_versions() -> list[Check]:
    from gsx.storage.artifacts.run_record import PACKAGES, package_versions
    from gsx.storage.doctor import Check

    versions = package_versions()
    missing = "not installed: pip install 'gsx[pipeline]'"
    return [
        Check("python", "ok", platform.python_version()),
        *(
            Check(name, "ok" if name in versions else "warn", versions.get(name, missing))
            for name in PACKAGES
        ),
    ]


def _check_extensions() -> Check:
    from gsx._native import MODULES, load_extension
    from gsx.storage.doctor import Check

    if any(load_extension(name) is None for name in MODULES):
        message = "not compiled, NumPy is used: install a C compiler and reinstall gsx"
        return Check("loops", "warn", message)
    return Check("loops", "ok", "compiled")


def _check_threads() -> list[Check]:
    from gsx.storage.doctor import Check

    return [Check(name, "ok", os.environ.get(name, "not set")) for name in THREAD_VARIABLES]
