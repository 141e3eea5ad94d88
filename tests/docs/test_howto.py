"""Every command of the how-to pages runs, page by page, in an empty directory."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.support.artifacts import gsx as run

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").exists())
PAGES = sorted((ROOT / "docs" / "howto").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    """Commands run in this process: starting a new one for each would take most of the time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GSX_STORE", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    lines = (ROOT / "examples" / "molecules.csv").read_text().splitlines(keepends=True)
    Path("molecules.csv").write_text("".join(lines[:151]))
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), flags=re.M | re.S)
    for language, body in blocks:
        if language == "python":
            exec(compile(body, page.name, "exec"), {})
            sys.modules.pop("load_pyg", None)
            continue
        assert language == "sh"
        for line in body.strip().splitlines():
            words = shlex.split(line)
            assert words[0] == "gsx"
            result = run(*words[1:])
            assert result.code == 0, f"{line}\n{result.err}"


def test_the_index_lists_every_page():
    index = (ROOT / "docs" / "howto" / "README.md").read_text()
    for page in PAGES:
        assert page.name == "README.md" or f"({page.name})" in index
