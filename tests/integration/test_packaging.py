"""The wheel contains every module and works without the source."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build a wheel from a copy of the source without links, as from a source archive."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.is_file() and not path.is_symlink() and not name.startswith("tests/"):
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, source],
        capture_output=True, check=True,
    )  # fmt: skip
    (built,) = out.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_contains_every_module_under_one_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    modules = {
        f"gsx/{path.relative_to(ROOT).as_posix()}"
        for top in ("cli", "pipeline", "stages", "storage")
        for path in (ROOT / top).rglob("*.py")
    } | {
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.py", "*.pyi", "api/*.py")
        for path in (ROOT / "gsx").glob(pattern)
    }
    assert modules <= names
    assert "gsx/py.typed" in names
    assert {f"gsx/stages/report/page.{end}" for end in ("css", "js")} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"gsx"}


@pytest.mark.slow
def test_the_wheel_runs_without_the_source(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "import gsx; assert gsx.__file__.startswith(sys.path[0]), gsx.__file__\n"
        "from gsx.cli.main import main\n"
        "sys.argv = ['gsx', 'prepare', 'motif-base', '--num-graphs', '60', '--json']; main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert '"kind": "corpus"' in result.stdout
