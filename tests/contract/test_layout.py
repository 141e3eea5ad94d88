"""The packaging table, the links in gsx/ and the folders on disk agree."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP = ("cli", "pipeline", "stages", "storage")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_top_folder_is_linked_into_the_package():
    links = {path.name: path.readlink().as_posix() for path in (ROOT / "gsx").iterdir()
             if path.is_symlink()}  # fmt: skip
    assert links == {name: f"../{name}" for name in TOP}


def test_the_packaging_table_lists_every_package_and_no_other():
    folders = {"gsx", "gsx.api"}
    for top in TOP:
        for path in (ROOT / top).rglob("__init__.py"):
            folders.add("gsx." + path.parent.relative_to(ROOT).as_posix().replace("/", "."))
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == folders


def test_the_table_maps_the_top_folders():
    table = PROJECT["tool"]["setuptools"]["package-dir"]
    assert table == {"gsx": "gsx", **{f"gsx.{name}": name for name in TOP}}


def test_torch_is_pinned_in_the_constraints():
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()


def test_no_module_outgrows_a_sitting():
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for top in ("gsx", *TOP)
        for path in (ROOT / top).rglob("*.py")
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert long == {}


def pins(name):
    """Return name → version of a file with pinned requirements; every one must have a hash."""
    requirements = (ROOT / name).read_text().replace(" \\\n", "").splitlines()
    pinned = {}
    for line in requirements:
        if line and not line.startswith("#"):
            requirement, *hashes = line.split("    --hash=sha256:")
            package, version = requirement.split(";")[0].strip().split("==")
            pinned[re.sub(r"[-_.]+", "-", package).lower()] = version
            assert name == "constraints.txt" or hashes, f"{package} has no hash"
    return pinned


def test_the_lock_files_pin_what_the_constraints_pin():
    locks = ("requirements.lock", "requirements-bench.lock", "requirements-text.lock")
    locked = {name: version for file in locks for name, version in pins(file).items()}
    constraints = pins("constraints.txt")
    only_locked = {"pip", "setuptools", "wheel", "appnope"}  # build tools, and macOS
    assert locked.keys() - constraints.keys() == only_locked
    assert {name: locked[name] for name in constraints} == constraints
    assert locked["torch"] == "2.13.0"
