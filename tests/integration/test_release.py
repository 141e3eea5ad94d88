"""A release: source archive and wheels, installed into a new environment without the checkout."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICKSTART = (
    ("generate", "motif-size", "--num-graphs", "300", "--preset", "quick", "--recipe", "grow",
     "--out", "augmented"),
    ("verify", "augmented"),
)  # fmt: skip
READ = """
import gsx
corpus = gsx.open("augmented")
print(gsx.__file__, len(corpus), corpus.table(split="train", env=[3]).num_nodes.max())
"""
pytestmark = pytest.mark.slow


def run(*command, cwd, **variables):
    """Run a command without the checkout on its path, and return its output."""
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "GSX_STORE", "CC")}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**env, **variables}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    """Build the source archive from a copy of the files that git knows."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("sdist")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, check=True,
    ).stdout.decode()  # fmt: skip
    for name in filter(None, listed.split("\0")):
        path, target = ROOT / name, source / name
        if name.startswith(("tests/", "results/", "bench/")) or not path.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            target.symlink_to(path.readlink())
        else:
            target.write_bytes(path.read_bytes())
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, cwd=source)
    (archive,) = out.glob("gsx-*.tar.gz")
    return archive


@pytest.fixture(scope="module", params=["compiler", "no compiler"])
def installed(request, sdist, tmp_path_factory):
    """Build a wheel from the source archive and install it; return the environment and loops.

    The dependencies are those of this environment; gsx itself is not visible there, because paths
    in a .pth file do not activate editable installations.
    """
    folder = tmp_path_factory.mktemp("release")
    compiler = {"CC": "/bin/false"} if request.param == "no compiler" else {}
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", folder / "dist")
    run(*pip, "wheel", *options, sdist, cwd=folder, **compiler)
    (wheel,) = (folder / "dist").glob("gsx-*.whl")
    venv.create(folder / "venv", with_pip=False)
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "venv" / "bin" / "python"
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    return folder / "venv", "compiled" if not compiler else "not compiled"


@pytest.fixture(scope="module")
def digests():
    """Digests of the quickstart's corpus, by state of the compiled loops."""
    return {}


def test_the_quickstart_runs_from_an_installed_wheel(installed, tmp_path, digests):
    environment, loops = installed
    gsx = environment / "bin" / "gsx"
    assert run(gsx, "--version", cwd=tmp_path).startswith("gsx, version ")
    checks = json.loads(run(gsx, "doctor", "--json", cwd=tmp_path))["versions"]
    assert next(c["found"] for c in checks if c["name"] == "loops").startswith(loops)
    for command in QUICKSTART:
        printed = run(gsx, *command, "--json", cwd=tmp_path)
        if command[0] == "generate":
            digests[loops] = json.loads(printed)["digest"]
    place, graphs, largest = run(environment / "bin" / "python", "-c", READ, cwd=tmp_path).split()
    assert Path(place).is_relative_to(environment)
    assert int(graphs) > 300
    assert int(largest) > 45
    assert len(set(digests.values())) == 1  # C and NumPy give the same bytes
