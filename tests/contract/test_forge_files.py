"""Workflows, templates and citation are valid; the workflow runs targets of the Makefile."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from gsx import __version__

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_follows_the_schema(path):
    if importlib.util.find_spec("check_jsonschema") is None:
        pytest.skip("check-jsonschema is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows",
         path], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_commands_of_a_workflow_are_targets_of_the_makefile(path):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    used = re.findall(r"run: make ([a-z-]+)", path.read_text())
    assert used
    assert set(used) <= set(targets)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_has_the_fields_that_forges_require(path):
    form = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        assert form == {"blank_issues_enabled": True}
        return
    assert form["name"]
    assert form["description"]
    ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(set(ids)) == len(ids) > 0


def test_the_citation_names_the_version_and_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == "MIT"
    assert {"title", "authors", "year"} <= citation["references"][0].keys()


def test_the_image_copies_every_folder_of_the_package():
    text = (ROOT / "Dockerfile").read_text()
    copied = set(re.findall(r"^COPY (\w+) \1$", text, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert copied == set(project["tool"]["setuptools"]["package-dir"].values())
    for name in re.findall(r"^COPY ([\w. ]+) \./$", text, re.MULTILINE)[0].split():
        assert (ROOT / name).is_file()
