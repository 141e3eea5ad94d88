"""Exports of a corpus whose names do harm where they are not escaped."""

import ast
import csv
import dataclasses
import html.parser
import json
import xml.etree.ElementTree as ET

import msgspec
import numpy as np
import pytest
import yaml
from markdown_it import MarkdownIt

from gsx import schema
from gsx.errors import ArtifactError, MoleculeError
from gsx.escape import without_controls
from gsx.pipeline.lineage_svg import lineage_svg
from gsx.stages.export.formats import EXPORT_FORMATS, molecules
from gsx.stages.export.request import ExportRequest
from gsx.stages.report.html import document, section, table
from gsx.stages.train import results_table
from gsx.storage.artifacts.lineage import Ancestor
from gsx.storage.artifacts.manifest import Dropped
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from gsx.storage.sharing.bundle import Bundle
from gsx.storage.sharing.csv_file import write_csv
from tests.support.artifacts import gsx as run
from tests.support.hostile_text import TEXTS
from tests.support.smiles import SMILES

ALL = " ".join(text for text in TEXTS if len(text) < 100)


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    folder = tmp_path_factory.mktemp("molecules")
    rows = [f"{text},{int('N' in text)},{len(text)}" for text in SMILES[::12]]
    (folder / "assay.csv").write_text("\n".join(["smiles,active,weight", *rows]) + "\n")
    result = run("prepare", "--smiles", folder / "assay.csv", "--target", "active",
                 "--target", "weight", "--domain", "size", "--task", "regression",
                 "--store", folder / "store", "--json")  # fmt: skip
    assert result.code == 0, result.err
    return Store.at(folder / "store").resolve(json.loads(result.out)["key"])


@pytest.fixture(
    params=[ALL, "", "---\nlicense: mit\n---", '"""\nimport os', "../../x", "x" * 10_000],
    ids=["all", "empty", "lines", "quotes", "path", "long"],
)
def request_of(request, key, unchecked):
    """An export request of a corpus with a hostile text in every name."""
    return hostile_request(key, request.param), request.param


@pytest.fixture
def unchecked(monkeypatch):
    """Skip the checks of names and summaries, which refuse such a corpus before an export does."""
    monkeypatch.setattr(schema, "check_texts", lambda *_, **__: None)
    monkeypatch.setattr(
        Corpus, "summary", property(lambda corpus: corpus.artifact.manifest.summary)
    )


def hostile_request(artifact, text):
    manifest = msgspec.structs.replace(
        artifact.manifest,
        warnings=(text,),
        dropped=(Dropped(reason=text, count=1),),
        config={**artifact.manifest.config, text: text},
        raw={text: "0" * 64},
        summary={
            **artifact.manifest.summary,
            "environments": [
                {**row, "name": text} for row in artifact.manifest.summary["environments"]
            ],
            "oddities": {text: 1},
        },
    )
    corpus = Corpus(dataclasses.replace(artifact, manifest=manifest))
    info = corpus.info
    corpus.info = msgspec.structs.replace(
        info,
        name=text, domain=text, description=text, licence=text, citation=text,
        outputs=(text, text), domains=(text,) * len(info.domains),
        columns=tuple(msgspec.structs.replace(c, doc=text) for c in info.columns),
    )  # fmt: skip
    return ExportRequest(corpus=corpus, lineage=(manifest,), date="2026-01-01", creator=text)


def write(name, export_request, folder):
    folder.mkdir()
    bundle = Bundle(folder)
    (export_format,) = (entry for entry in EXPORT_FORMATS if entry.name == name)
    export_format.write(bundle, export_request)
    return bundle


def inline_types(markdown):
    """Return the types of all inline elements, and the number of blocks by type."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    inline = {child.type for token in tokens for child in token.children or ()}
    return inline, [token.type for token in tokens]


def test_the_dataset_card(request_of, key, tmp_path):
    hostile, text = request_of
    write("portable", hostile, tmp_path / "out")
    card = (tmp_path / "out/README.md").read_text()
    assert all(character.isprintable() for character in card.replace("\n", ""))
    _, header, body = card.split("---\n", 2)
    fields = yaml.safe_load(header)
    assert fields["pretty_name"] == text
    inline, blocks = inline_types(body)
    assert inline <= {"text", "text_special", "code_inline", "strong_open", "strong_close",
                      "softbreak"}  # fmt: skip
    ordinary = hostile_request(key, "x")
    write("portable", ordinary, tmp_path / "ordinary")
    expected = inline_types((tmp_path / "ordinary/README.md").read_text().split("---\n", 2)[2])[1]
    assert blocks == expected or not text.strip()


@pytest.mark.parametrize(
    "summary",
    [{"groups": 5}, {"groups": [{}]}, {"environments": [{"id": 0}]}, {"oddities": {"x": "y"}},
     {"quality": {"option_1": {"graphs": "many"}}}, {"quality": {"featx": {}}}],
)  # fmt: skip
def test_a_summary_of_another_shape_is_reported(key, tmp_path, summary, monkeypatch):
    monkeypatch.setattr(ExportRequest, "num_augmented", 1)
    hostile = hostile_request(key, "x")
    hostile.corpus.artifact.manifest.summary.update(summary)
    with pytest.raises(ArtifactError, match="the summary of corpus"):
        write("portable", hostile, tmp_path / "out")


def test_croissant_metadata(request_of, tmp_path):
    hostile, text = request_of
    write("portable", hostile, tmp_path / "out")
    metadata = json.loads((tmp_path / "out/croissant.json").read_text())
    assert metadata["name"] == text


def test_readers_and_file_names(request_of, tmp_path):
    hostile, _ = request_of
    for name in ("ogb", "good", "pyg", "dgl"):
        bundle = write(name, hostile, tmp_path / name)
        for path in bundle.files:
            assert path.isascii()
            assert path.isprintable()
            assert len(path) < 200
        for path in (tmp_path / name).rglob("*.py"):
            ast.parse(path.read_text())
    reader = ast.parse((tmp_path / "ogb/load_ogb.py").read_text())
    assert [type(node).__name__ for node in reader.body] == [
        "Expr", "ImportFrom", "Import", "Import", "Assign", "Assign",
        "FunctionDef", "FunctionDef", "FunctionDef",
    ]  # fmt: skip


def test_dgl_metadata(request_of, tmp_path):
    hostile, text = request_of
    write("dgl", hostile, tmp_path / "out")
    metadata = yaml.safe_load((tmp_path / "out/meta.yaml").read_text())
    assert metadata["dataset_name"] == text
    assert metadata["graph_data"] == {"file_name": "graphs.csv"}


def test_sdf_is_read_by_rdkit(request_of, tmp_path):
    from rdkit import Chem

    hostile, _ = request_of
    write("sdf", hostile, tmp_path / "out")
    count = 0
    for path in (tmp_path / "out").glob("*.sdf"):
        for molecule in Chem.SDMolSupplier(str(path)):
            assert molecule is not None
            names = list(molecule.GetPropNames())
            assert names[:4] == ["graph_id", "env_id", "domain_id", "origin"]
            assert len(set(names)) == 6
            assert molecule.GetProp("_Name") == molecule.GetProp("graph_id")
            count += 1
    assert count == len(hostile.corpus)


def test_csv_tables(request_of, tmp_path):
    hostile, _ = request_of
    write("csv", hostile, tmp_path / "out")
    for path in (tmp_path / "out").rglob("graphs.csv"):
        with path.open(newline="", encoding="utf-8") as stream:
            header, *rows = csv.reader(stream)
        assert len(set(header)) == len(header) >= 9
        assert all(name.replace("_", "a").isalnum() for name in header)
        assert {len(row) for row in rows} == {len(header)}


def test_csv_cells_are_read_back(tmp_path):
    write_csv(tmp_path / "a.csv", [{"=text": list(TEXTS), "a,b": np.full(len(TEXTS), -1.5)}])
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    assert header == ["'=text", "a,b"]
    assert [row[1] for row in rows] == ["-1.5"] * len(TEXTS)
    for (cell, _), text in zip(rows, TEXTS, strict=True):
        plain = without_controls(text)
        assert cell == plain or (cell == f"'{plain}" and plain[0] in "=+-@\t\r\n\uff1d")
    dangerous = [cell for cell, _ in rows if cell[:1] in tuple("=+-@\t\r\n\uff1d")]
    assert dangerous == ["+1", "-1.5"]


@pytest.mark.parametrize("text", ["C\nCC\t99", "C C", "C\x1b[2J", "C\u2028C"])
def test_smiles_files_have_one_line_per_graph(key, tmp_path, monkeypatch, text):
    monkeypatch.setattr(molecules, "decode_texts", lambda values: [text] * len(values))
    with pytest.raises(MoleculeError, match="contains white space or control characters"):
        write("smi", hostile_request(key, "x"), tmp_path / "out")


class Elements(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.text = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, sorted(name for name, _ in attributes)))

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("text", TEXTS)
def test_html_elements(text):
    def elements(name):
        page = document(name, name and "", section("a", name, table([name], [[name]], name)), "")
        parser = Elements()
        parser.feed(page)
        assert all(character.isprintable() for character in page.replace("\n", ""))
        return [tag for tag, names in parser.tags if tag != "td"], "".join(parser.text)

    assert elements(text)[0] == elements("x")[0]


@pytest.mark.parametrize("text", TEXTS)
def test_lineage_drawings_are_xml(text):
    ancestors = [Ancestor(0, "", text, "0" * 64, text, same_content=True),
                 Ancestor(1, text, text, "1" * 64, None, same_content=True)]  # fmt: skip
    root = ET.fromstring(lineage_svg(ancestors))
    assert not [element for element in root.iter() if element.tag.endswith("script")]


@pytest.mark.parametrize("text", TEXTS)
def test_tables_of_results(text):
    cells = [results_table.Cell(method=text, dataset=text, metric="accuracy", mean=50.0, seeds=1)]
    inline, blocks = inline_types(results_table.markdown(cells))
    assert inline <= {"text", "text_special"}
    assert blocks.count("tr_open") == 2
    header, row = csv.reader(results_table.csv_text(cells).split("\n"))
    assert len(header) == len(row)
    assert row[0][:1] not in tuple("=+-@") or row[0] in ("-1.5", "+1")
    lines = results_table.latex(cells).split("\n")
    assert len(lines) == 7
    assert "\\" not in text or "textbackslash" in lines[4]
