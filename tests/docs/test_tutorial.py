"""The tutorial and the notebook run; generated pages and HTML views are up to date."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gsx
from experiments.update_docs import update_tables
from gsx.cli.recipes import recipe_reference
from gsx.cli.reference import reference
from gsx.pipeline.recipe_reference import recipe_file_reference
from tests.support.artifacts import motif
from tests.support.make_golden import pages

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").exists())
NOTEBOOKS = sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def test_the_command_reference_is_up_to_date():
    assert (ROOT / "docs" / "cli.md").read_text() == reference(), "run `make docs`"


def test_the_page_of_recipes_is_up_to_date():
    assert (ROOT / "docs" / "recipes.md").read_text() == recipe_reference(), "run `make docs`"
    page = (ROOT / "docs" / "recipe-files.md").read_text()
    assert page == recipe_file_reference(), "run `make docs`"


@pytest.mark.slow
def test_the_tutorial_runs_from_top_to_bottom(tmp_path):
    shutil.copy(ROOT / "examples" / "molecules.csv", tmp_path)
    text = (ROOT / "docs" / "tutorial.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, flags=re.M | re.S)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-euc", "\n".join(blocks)],
        cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "report.html").read_text().count('<svg class="molecule"') > 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_tutorial_notebook_runs_and_holds_its_outputs(path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    stored = [kinds_of_outputs(cell) for cell in code]
    assert any(stored)
    assert not re.search(r"/(tmp|home|root)/", path.read_text())
    NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
    assert [kinds_of_outputs(cell) for cell in code] == stored


def kinds_of_outputs(cell):
    """Return the media types of the outputs of a cell, without messages on stderr."""
    return [
        sorted(output.get("data", {output.output_type: ""}))
        for output in cell.outputs
        if output.get("name") != "stderr"
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_notebook_runs_and_draws_graphs(monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(ROOT / "examples" / "corpus.ipynb", as_version=4)
    NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
    views = [
        output["data"].get("text/html", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    ]
    printed = [
        output.get("text", "")
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
    ]
    assert not [text for text in printed if "Warning" in text or "ipywidgets" in text]
    assert any("motif-size" in html for html in views)
    assert any("accuracy of 1 model" in html for html in views)
    assert any(html.count("<svg") == 4 for html in views)


def test_the_html_view_of_a_corpus_lists_splits_and_environments(tmp_path):
    from gsx.storage.artifacts.store import Store

    html = gsx.open(motif(Store.at(tmp_path)).location.local)._repr_html_()
    assert "<td>train</td><td>width 1..11</td>" in html
    assert "<td>ood_test</td><td>unknown</td><td>3</td>" in html
    nodes = gsx.open(pages(Store.at(tmp_path)).location.local)._repr_html_()
    assert "<th>nodes</th>" in nodes


def test_the_html_view_of_a_table_draws_its_first_graphs(motif_table):
    html = motif_table.slice(0, 9)._repr_html_()
    assert html.count("<svg") == 4
    assert "9 graphs" in html
    assert "<code>provenance.parents</code></td><td>lists of int64" in html


def test_the_html_view_escapes_texts_of_a_corpus(tmp_path):
    import msgspec

    from gsx.storage.artifacts.store import Store

    corpus = gsx.open(motif(Store.at(tmp_path)).location.local)
    corpus.info = msgspec.structs.replace(corpus.info, description="<img onerror=x>")
    assert "<img" not in corpus._repr_html_()


def test_result_tables_match_the_result_files():
    text = (ROOT / "docs" / "results.md").read_text()
    assert update_tables(text) == text, "run `make docs`"
    assert "| erm |" in text
