"""`gsx catalog`: the pages of a real store are complete, linked, escaped, and work in a browser."""

import functools
import html
import http.server
import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import msgspec
import pytest

from gsx.pipeline.catalog.corpus_sections import num_generated
from gsx.stages.export.request import ExportRequest
from gsx.storage.artifacts.lineage import lineage_manifests
from gsx.storage.artifacts.publish import Identity, StageResult, build_artifact
from gsx.storage.artifacts.store import Store
from gsx.storage.corpora.corpus import Corpus
from tests.support.artifacts import contents, gsx, parent_of, replace_file
from tests.support.browser import CHROMIUM, open_page
from tests.support.catalog_pages import broken_links, pages_of, parse, search_index
from tests.support.remote_stores import ACCESS, SECRET, ignore_unclosed_sessions
from tests.support.run_stages import run_recipe, run_stage

RECIPE = """
[prepare]
dataset = "motif-size"
num_graphs = 300
[extract]
node_epochs = 1
set_epochs = 1
[generate]
options = "010"
bridges = "random"
f = [1, 1]
count = 40
[train]
epochs = 2
width = 16
"""
LINK = r'<a href="artifacts/([a-z]+)-([0-9a-f]{32})'
SNIPPET = r'<pre class="snippet"[^>]*><code class="python">(.*?)</code>'
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def difference(mean):
    return {"mean": mean, "low": mean - 1, "high": mean + 1, "probability": 0.9}


def write_recommendation(store, source):
    """Write a recommendation with two recipes, without comparing any."""
    recipes = [
        {"name": "grow", "screen": difference(3.0), "confirmed": difference(2.0)},
        {"name": "swap", "screen": difference(-1.0), "confirmed": None},
    ]
    summary = {
        "choice": "grow", "reason": "it helps", "decided_by": "confirmation",
        "metric": "accuracy", "validation": "ood_val", "threshold": 0.95, "recipes": recipes,
    }  # fmt: skip
    identity = Identity(
        kind="recommendation", stage="recommend", stage_version=1, config={"budget": "5m"},
        parents=(parent_of(source, "corpus"),),
    )  # fmt: skip

    def produce(draft):
        draft.write_bytes("recommendation.json", b"{}")
        return StageResult(
            counts={"recipes": 2}, summary={"name": "motif-size", "recommendation": summary}
        )

    return build_artifact(store, identity, produce).artifact


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    """A store with corpora of both levels, an extractor, models, statistics, a recommendation."""
    home = tmp_path_factory.mktemp("home")
    folder = home / "store"
    made = run_recipe(folder, RECIPE)
    inputs = {"prepare": made["prepare"]}
    for seed in (0, 1):
        options = {"epochs": 2, "width": 16, "source": "prepare", "seed": seed}
        made[f"baseline {seed}"] = run_stage(folder, "train", options, inputs)
    made["nodes"] = run_recipe(folder, '[prepare]\ndataset = "cbas-color"\n')["prepare"]
    made["recommendation"] = write_recommendation(Store.at(folder), made["prepare"])
    assert gsx("describe", made["generate"].key, "--store", folder).code == 0
    assert gsx("tag", made["generate"].key, "best-corpus", "--store", folder).code == 0
    assert gsx("keygen", home / "team").code == 0
    assert gsx("keygen", home / "other").code == 0
    signed = gsx("sign", made["generate"].key, "--key", home / "team.key", "--store", folder)
    assert signed.code == 0, signed.err
    return {**made, "home": home, "store": folder}


@pytest.fixture(scope="module")
def site(artifacts):
    """The catalog of the store."""
    target = artifacts["home"] / "out" / "site"
    result = gsx("catalog", artifacts["store"], "-o", target, "--json")
    assert result.code == 0, result.err
    document = json.loads(result.out)
    assert document["bytes"] == sum(len(data) for data in contents(target).values())
    assert document["artifacts"] == {
        "corpus": 3, "extractor": 1, "model": 3, "recommendation": 1, "statistics": 1,
    }  # fmt: skip
    assert document["pages"] == len(list(target.rglob("*.html"))) == 10
    assert document["damaged"] == []
    return target


def page(site, artifact):
    manifest = artifact.manifest
    return site / "artifacts" / f"{manifest.kind}-{manifest.key[:32]}.html"


def text_of(path):
    return " ".join(parse(path.read_bytes()).text.split())


# --- content --------------------------------------------------------------------------------------


def test_every_link_has_a_target_in_the_site(site):
    assert broken_links(site) == []
    for path, parsed in pages_of(site).items():
        assert len(parsed.ids) == len(set(parsed.ids)), path
        assert set(parsed.elements) <= {"script"} | set(parsed.elements) - {"iframe", "img"}


def test_every_artifact_is_linked_from_the_index(site, artifacts):
    links = pages_of(site)[site / "index.html"].links
    pages = {f"artifacts/{path.name}" for path in (site / "artifacts").iterdir()}
    assert pages <= set(links)
    assert f"artifacts/{page(site, artifacts['generate']).name}" in pages


def test_the_search_index_has_a_row_per_artifact_in_the_order_of_the_table(site, artifacts):
    rows = search_index(site)
    names = re.findall(
        r'<a href="artifacts/([a-z]+)-([0-9a-f]{32})', (site / "index.html").read_text()
    )
    assert [row["kind"] for row in rows] == [kind for kind, _ in names]
    assert all(key in row["text"] for row, (_, key) in zip(rows, names, strict=True))
    generated = next(row for row in rows if artifacts["generate"].key in row["text"])
    assert generated["dataset"] == "motif-size"
    assert generated["stage"] == "generate"
    for word in ("best-corpus", "bridges=random", "count=40", "unchecked", "motif joined"):
        assert word in generated["text"]
    models = [row for row in rows if row["kind"] == "model"]
    assert all(0 <= row["ood_val"] <= 100 for row in models)
    assert sum("seed=1" in row["text"] for row in models) == 1


def test_a_corpus_page_has_card_figures_models_and_checksums(site, artifacts):
    corpus = Corpus(artifacts["generate"])
    text = text_of(page(site, artifacts["generate"]))
    assert corpus.info.description.split(".")[0] in text
    assert corpus.info.citation in text
    assert "40 training graphs are synthetic" in text
    assert "Option 2: 40 graphs" in text
    assert "best-corpus" in text
    for split, count in corpus.splits.items():
        assert f"{split}{count}" in text.replace(" ", ""), split
    for entry in artifacts["generate"].manifest.files.values():
        assert entry.sha256 in text
    assert artifacts["generate"].manifest.digest in text
    assert "Signed by the key" in text
    assert "1 model, sorted by ood_val" in text
    assert artifacts["train"].key[:12] in text


def test_the_source_page_lists_its_models_with_scores_the_best_first(site, artifacts):
    data = page(site, artifacts["prepare"]).read_text()
    models = [artifacts["baseline 0"], artifacts["baseline 1"]]
    scores = {
        m.key[:12]: m.manifest.summary["quality"]["selection"]["last"]["ood_val"] for m in models
    }
    table = data[data.index('id="models"') : data.index('id="lineage"')]
    listed = re.findall(r"<code>([0-9a-f]{12})</code>", table)
    assert listed == sorted(scores, key=lambda key: (-scores[key], key))
    assert all(f"{score:.2f}" in table for score in scores.values())


def test_the_lineage_picture_links_inputs_and_outputs(site, artifacts):
    data = page(site, artifacts["extract"]).read_text()
    start = data.index('class="scroll lineage"')
    picture = data[start : data.index("</svg>", start)]
    linked = re.findall(r'<a class="box [a-z]+( current)?" href="([^"]+)"', picture)
    assert {name for _, name in linked} == {
        page(site, artifacts[name]).name for name in ("prepare", "extract", "generate")
    }
    assert [name for mark, name in linked if mark] == [page(site, artifacts["extract"]).name]


def test_the_recommendation_page_has_forest_plots(site, artifacts):
    data = page(site, artifacts["recommendation"]).read_text()
    assert data.count("Forest plot of") == 2
    assert "Recommended recipe: grow" in data


def test_a_corpus_with_labelled_nodes_counts_nodes(site, artifacts):
    text = text_of(page(site, artifacts["nodes"]))
    assert "700labelled nodes" in text
    assert "corpus.to_pyg(dense=True)" in text


def test_python_snippets_load_the_corpora(site, artifacts):
    for name in ("generate", "nodes"):
        data = page(site, artifacts[name]).read_text()
        snippets = re.findall(
            r'<pre class="snippet"[^>]*><code class="python">(.*?)</code>', data, re.S
        )
        assert len(snippets) == 2
        for snippet in snippets:
            values = {}
            exec(html.unescape(snippet), values)
            frame = values.get("frame")
            assert values["corpus"].key == artifacts[name].key if frame is None else len(frame)


def test_the_pull_snippets_copy_every_artifact(site, artifacts, tmp_path):
    for name in ("generate", "extract", "train"):
        data = page(site, artifacts[name]).read_text()
        command = re.search(r'<code class="sh">gsx (pull .*?)\n', data)[1]
        result = gsx(*html.unescape(command).split(), "--store", tmp_path)
        assert result.code == 0, result.err


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("prepare", ("drop-edge",)),
        ("prepare", ("g-mixup",)),
        ("prepare", ("drop-edge", "--augmented-only")),
        ("generate", ("drop-edge",)),
        ("generate", ("drop-edge", "--augmented-only")),
        ("nodes", ("drop-edge",)),
    ],
)
def test_generated_graphs_are_counted_without_reading_shards(artifacts, tmp_path, start, words):
    shutil.copytree(artifacts["store"], tmp_path / "store")
    result = gsx("augment", artifacts[start].key, *words, "--store", tmp_path / "store", "--json")
    assert result.code == 0, result.err
    store = Store.at(tmp_path / "store")
    augmented = store.resolve(json.loads(result.out)["key"])
    assert check_count(store, augmented) > 0


def test_generated_graphs_of_built_corpora_are_counted(artifacts):
    store = Store.at(artifacts["store"])
    counts = [check_count(store, artifacts[name]) for name in ("prepare", "generate", "nodes")]
    assert counts == [0, 40, 0]


def check_count(store, artifact):
    """Compare the count from manifests with the origins of all graphs."""
    lineage = tuple(lineage_manifests(store, artifact))
    request = ExportRequest(corpus=Corpus(artifact), lineage=lineage, date="")
    assert num_generated(Corpus(artifact), lineage) == request.num_augmented
    return request.num_augmented


# --- bytes, targets, damage -----------------------------------------------------------------------


def test_the_same_store_gives_the_same_bytes(site, artifacts, tmp_path):
    assert gsx("catalog", artifacts["store"], "-o", tmp_path / "again", "--quiet").code == 0
    assert contents(tmp_path / "again") == contents(site)


def test_a_target_that_is_not_empty_keeps_its_files(artifacts, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    result = gsx("catalog", artifacts["store"], "-o", tmp_path)
    assert result.code != 0
    assert "is not empty; nothing was written" in result.err
    assert contents(tmp_path) == {"mine.txt": b"mine"}


def test_a_target_inside_of_an_artifact_is_rejected(artifacts):
    folder = artifacts["store"] / "corpus" / artifacts["prepare"].key[:32]
    result = gsx("catalog", artifacts["store"], "-o", folder / "site")
    assert result.code != 0
    assert "is inside the artifact" in result.err


def test_a_failure_leaves_no_site(artifacts, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gsx.pipeline.catalog.site.artifact_page", fail)
    result = gsx("catalog", artifacts["store"], "-o", tmp_path / "site")
    assert result.code != 0
    assert "no space left" in result.err
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("store", ["empty", "https://127.0.0.1:9/store"])
def test_a_store_without_a_list_of_artifacts_is_an_error(tmp_path, store):
    address = store if "://" in store else tmp_path / store
    result = gsx("catalog", address, "-o", tmp_path / "site")
    assert result.code != 0
    assert "Traceback" not in result.err
    assert not (tmp_path / "site").exists()


def test_damaged_artifacts_are_listed_and_the_others_are_shown(artifacts, tmp_path):
    store = tmp_path / "store"
    shutil.copytree(artifacts["store"], store)
    corpus, model = artifacts["nodes"], artifacts["baseline 1"]
    replace_file(store / "corpus" / corpus.key[:32] / "corpus.json", b"{}")
    replace_file(store / "model" / model.key[:32] / "manifest.json", b"{<script>")
    result = gsx("catalog", store, "-o", tmp_path / "site")
    assert result.code == 3
    assert "does not match the SHA-256 in the manifest" in result.err
    index = (tmp_path / "site" / "index.html").read_text()
    assert "Damaged artifacts" in index
    assert not page(tmp_path / "site", corpus).exists()
    assert page(tmp_path / "site", artifacts["generate"]).exists()
    assert broken_links(tmp_path / "site") == []


def test_signatures_are_checked_with_a_key(artifacts, tmp_path):
    home, store = artifacts["home"], artifacts["store"]
    good = gsx("catalog", store, "-o", tmp_path / "good", "--signature", home / "team.pub")
    assert good.code == 0, good.err
    assert "the signature is valid" in text_of(page(tmp_path / "good", artifacts["generate"]))
    assert "Not signed." in text_of(page(tmp_path / "good", artifacts["prepare"]))
    bad = gsx("catalog", store, "-o", tmp_path / "bad", "--signature", home / "other.pub")
    assert bad.code == 3
    assert "not by" in bad.err
    assert "invalid" in text_of(page(tmp_path / "bad", artifacts["generate"]))


def test_reports_of_the_store_are_copied_and_linked(artifacts, tmp_path):
    reports = tmp_path / "reports"
    key = artifacts["generate"].key[:12]
    out = reports / "any name.html"
    assert gsx("report", key, "-o", out, "--no-models", "--store", artifacts["store"]).code == 0
    (reports / "other.html").write_text("<title>no report</title>")
    stale = out.read_text().replace(artifacts["generate"].manifest.digest, "0" * 64)
    (reports / "stale.html").write_text(stale)
    site = tmp_path / "site"
    result = gsx("catalog", artifacts["store"], "-o", site, "--reports", reports, "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["reports"] == 1
    (copied,) = (site / "reports").iterdir()
    assert copied.read_bytes() == out.read_bytes()
    assert f"../reports/{copied.name}" in pages_of(site)[page(site, artifacts["generate"])].links
    assert broken_links(site) == []
    missing = gsx("catalog", artifacts["store"], "-o", tmp_path / "x", "--reports", tmp_path / "y")
    assert "is not a directory with reports" in missing.err


@ignore_unclosed_sessions
def test_the_catalog_of_an_object_store_has_the_same_pages(site, artifacts, s3, tmp_path):
    for name in ("prepare", "extract", "generate", "train"):
        artifact = artifacts[name]
        pushed = gsx("push", artifact.location.url, s3, "--store", artifacts["store"])
        assert pushed.code == 0, pushed.err
    result = gsx("catalog", s3, "-o", tmp_path / "site", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["artifacts"] == {"corpus": 2, "extractor": 1, "model": 1}
    assert broken_links(tmp_path / "site") == []
    data = b"".join(contents(tmp_path / "site").values()).decode()
    assert ACCESS not in data
    assert SECRET not in data
    text = text_of(page(tmp_path / "site", artifacts["generate"]))
    assert f"store='{s3}'" in text
    assert "Signed by the key" in text
    addressed = gsx("catalog", s3, "-o", tmp_path / "b", "--url", "https://me:pw@host/store")
    assert addressed.code == 0, addressed.err
    text = text_of(page(tmp_path / "b", artifacts["generate"]))
    assert "https://***@host/store" in text


# --- hostile names --------------------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;../../x\u202e\x1b[2J`"


def write_hostile(store):
    """Write artifacts whose names, options and recipes contain markup."""
    summaries = {
        "model": {"quality": {"metric": "accuracy", "selection": {HOSTILE: {"ood_val": 1.0}}}},
        "extractor": {"quality": {"causal": {"iou": 0.5}, HOSTILE: HOSTILE}},
        "recommendation": {
            "recommendation": {
                "choice": HOSTILE, "reason": HOSTILE, "decided_by": "screen",
                "metric": "accuracy", "validation": HOSTILE, "threshold": None,
                "recipes": [{"name": HOSTILE, "screen": difference(1.0), "confirmed": None}],
            }
        },
        "other": {},
    }  # fmt: skip
    for kind, summary in summaries.items():
        identity = Identity(
            kind=kind,
            stage="test",
            stage_version=1,
            config={HOSTILE: HOSTILE},
            raw={HOSTILE: "0" * 64},
        )  # fmt: skip

        def produce(draft, summary=summary):
            draft.write_bytes("a.bin", b"a")
            return StageResult(
                counts={HOSTILE: 1}, warnings=(HOSTILE,), summary={"name": HOSTILE, **summary}
            )

        build_artifact(store, identity, produce)


def test_hostile_names_are_only_text(tmp_path, artifacts):
    store = Store.at(tmp_path / "store")
    write_hostile(store)
    shutil.copytree(
        artifacts["nodes"].location.root,
        tmp_path / "store" / "corpus" / artifacts["nodes"].key[:32],
    )
    result = gsx("catalog", tmp_path / "store", "-o", tmp_path / "site", "--title", HOSTILE)
    assert result.code == 0, result.err
    site = tmp_path / "site"
    assert broken_links(site) == []
    names = [path.name for path in (site / "artifacts").iterdir()]
    assert all(re.fullmatch(r"[a-z]+-[0-9a-f]{32}\.html", name) for name in names)
    assert len(names) == 5
    for path, parsed in pages_of(site).items():
        allowed = 2 if path.name == "index.html" else 0
        assert parsed.elements.count("script") == allowed
        assert "img" not in parsed.elements
        assert not any(name.startswith("on") for name in parsed.attributes)
        data = path.read_text()
        assert "\u202e" not in data
        assert "\x1b" not in data
    script = (site / "index.js").read_text()
    assert "<" not in script
    assert script.isascii()
    assert any("<script>alert(1)" in row["text"] for row in search_index(site))


def test_texts_of_a_corpus_are_escaped(tmp_path, artifacts, monkeypatch):
    """Texts of corpora cannot contain control characters, but they can contain markup."""
    from gsx.pipeline.catalog import inventory

    plain = inventory._open_corpus

    def hostile(artifact):
        corpus = plain(artifact)
        text = "".join(filter(str.isprintable, HOSTILE))
        texts = dict.fromkeys(("description", "citation", "licence", "domain"), text)
        corpus.info = msgspec.structs.replace(corpus.info, **texts)
        return corpus

    monkeypatch.setattr(inventory, "_open_corpus", hostile)
    result = gsx("catalog", artifacts["store"], "-o", tmp_path / "site")
    assert result.code == 0, result.err
    for path, parsed in pages_of(tmp_path / "site").items():
        assert parsed.elements.count("script") == (2 if path.name == "index.html" else 0)
        assert "img" not in parsed.elements
    assert broken_links(tmp_path / "site") == []


# --- browser --------------------------------------------------------------------------------------

SHOWN = "[...document.querySelectorAll('#list tbody tr')].filter((row) => !row.hidden).length"
TYPE = """(() => {{
  const box = document.querySelector('input[name=q]');
  box.value = {text!r};
  box.dispatchEvent(new Event('input', {{ bubbles: true }}));
  return {shown};
}})()"""
GO = """new Promise((done) => {{
  addEventListener('hashchange', () => setTimeout(() => done({value}), 0), {{ once: true }});
  location.hash = {hash!r};
}})"""


@pytest.fixture
def site_copy(site, tmp_path):
    """A copy of the catalog: the browser writes its profile next to a page."""
    return Path(shutil.copytree(site, tmp_path / "site"))


@needs_browser
def test_search_filters_and_sorting_work_from_a_file(site_copy, artifacts):
    key = artifacts["generate"].key
    sorted_names = "[...document.querySelectorAll('#list tbody td.num')].map((c) => c.textContent)"
    result = open_page(
        site_copy / "index.html",
        [
            SHOWN,
            TYPE.format(text="best-corpus", shown=SHOWN),
            "location.hash",
            TYPE.format(text="no such thing", shown=SHOWN),
            "document.getElementById('none').hidden",
            TYPE.format(text="Motif-Size SEED=1", shown=SHOWN),
            "document.getElementById('shown').textContent",
            GO.format(hash="#kind=model&sort=-ood_val", value=SHOWN),
            "document.querySelector('select[name=kind]').value",
            sorted_names,
            GO.format(hash=f"#q={key}", value=SHOWN),
            "(document.querySelector('button[type=reset]').click(), new Promise((done) => "
            f"setTimeout(() => done({SHOWN}), 50)))",
            "[...document.querySelectorAll('#list th button')].map((b) => b.textContent)[0]",
        ],
    )
    assert result.errors == []
    assert [url.rsplit("/", 1)[1] for url in result.requests] == [
        "style.css", "index.js", "catalog.js",
    ]  # fmt: skip
    values = result.values
    assert values[:6] == [9, 1, "#q=best-corpus", 0, False, 1]
    assert values[6] == "1 of 9 artifacts"
    assert values[7:9] == [3, "model"]
    scores = [float(text) for text in values[9][::3][:3]]
    assert scores == sorted(scores, reverse=True)
    assert values[10] >= 1
    assert values[11] == 9
    assert values[12] == "Artifact"


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_width_of_the_screen(site_copy, artifacts, width):
    corpora = [page(site_copy, artifacts[name]) for name in ("generate", "nodes")]
    for path in (site_copy / "index.html", *corpora):
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        result = open_page(path, [overflow], width=width, dark=width < 700)
        assert result.errors == []
        assert result.values == [0], path


@needs_browser
def test_hostile_names_run_nothing_in_a_browser(tmp_path):
    write_hostile(Store.at(tmp_path / "store"))
    assert gsx("catalog", tmp_path / "store", "-o", tmp_path / "site").code == 0
    for path in ((tmp_path / "site" / "index.html"), *(tmp_path / "site" / "artifacts").iterdir()):
        result = open_page(path, ["document.querySelectorAll('img').length"])
        assert result.errors == []
        assert result.values == [0]


@needs_browser
def test_the_site_works_on_a_web_server_with_a_search_in_the_address(site, tmp_path):
    handler = functools.partial(QuietHandler, directory=site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/index.html#q=seed%3D1&kind=model"
        flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                 "--no-first-run", "--virtual-time-budget=2000")  # fmt: skip
        words = [CHROMIUM, *flags, f"--user-data-dir={tmp_path}", "--dump-dom", address]
        dom = subprocess.run(words, capture_output=True, timeout=120, check=True).stdout.decode()
        server.shutdown()
    rows = re.findall(r'<tr role="row"( hidden="")?><td', dom)
    assert len(rows) == 9
    assert rows.count("") == 1
    assert ">1 of 9 artifacts<" in dom


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without messages."""

    def log_message(self, *_):
        """Print nothing."""
