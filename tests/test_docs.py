"""Every code block of the README runs, and consoles print what the README shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.M | re.S)


def shell(command, cwd):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def without_times(text):
    return re.sub(r"made in [\d.]+ s", "made in N s", text).strip()


def commands_of(block):
    """Yield every command of a console block with the output shown under it."""
    for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        yield command, shown


def test_every_block_has_a_language_the_test_knows():
    assert {language for language, _ in BLOCKS} == {"sh", "console", "python"}


@pytest.mark.parametrize("block", [body for language, body in BLOCKS if language == "sh"])
def test_make_commands_are_targets(block):
    for line in block.strip().splitlines():
        words = line.split("#")[0].split()
        assert words[0] == "make"
        assert re.search(rf"^{words[1]}:.*##", (ROOT / "Makefile").read_text(), flags=re.M)


def test_consoles_print_what_is_shown_and_python_runs(tmp_path):
    for language, body in BLOCKS:
        if language == "console":
            for command, shown in commands_of(body):
                result = shell(command, tmp_path)
                assert without_times(result.stdout + result.stderr) == without_times(shown)
        elif language == "python":
            result = subprocess.run(
                [sys.executable, "-c", body],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert result.returncode == 0, result.stderr


def test_links_of_the_readme_and_docs_lead_somewhere():
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_figures_of_the_readme_are_those_measured():
    """Every row of the benchmark table names a result file that holds its figure."""
    for name, figure in re.findall(r"\| `(bench/results/\w+\.json)` \| ([^|]+) \|", README):
        text = (ROOT / name).read_text()
        for number in re.findall(r"\d[\d.]*", figure):
            assert number in text, f"{name} does not hold {number}"
