"""The documentation site: a strict build, links, and search without a server."""

import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """Collects the targets of links and the ids of a page."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.ids = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.ids.update(filter(None, (values.get("id"), values.get("name"))))
        target = values.get("href") if tag in ("a", "link") else values.get("src")
        if target:
            self.targets.append(target)


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def pages(site):
    return {path: Page(path.read_text()) for path in site.rglob("*.html")}


def test_every_page_of_the_documentation_is_in_the_site(pages, site):
    names = {path.relative_to(site).with_suffix("").as_posix() for path in pages}
    documents = {
        path.relative_to(ROOT / "docs").with_suffix("").as_posix()
        for path in (ROOT / "docs").rglob("*.md")
    }
    assert {name.replace("README", "index") for name in documents} <= names
    assert {"CHANGELOG", "CONTRIBUTING", "SECURITY"} <= names


def test_links_and_anchors_lead_somewhere(pages, site):
    broken = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are absolute: it is served for any path
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            other = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not other.is_file() or (
                other in pages
                and parts.fragment not in ("", "__skip")
                and unquote(parts.fragment) not in pages[other].ids
            ):
                broken.append(f"{path.relative_to(site)}: {target}")
    assert broken == []


def test_pages_load_nothing_from_other_hosts(pages):
    for path in pages:
        loaded = re.findall(
            r"<(?:script|img|link)[^>]+(?:src|href)=.?(https?://[^ >]+)", path.read_text()
        )
        assert loaded == [], path.name


def test_comments_of_the_sources_are_not_published(pages):
    assert not any("results/" in text and "mean ood_test" in text
                   for text in (path.read_text() for path in pages))  # fmt: skip


def test_the_search_index_holds_all_pages(site):
    text = (site / "search" / "search_index.js").read_text()  # loadable from file://
    index = json.loads(text[text.index("{") : text.rindex("}") + 1])
    locations = {row["location"].partition("#")[0] for row in index["docs"]}
    assert {"glossary.html", "concepts/determinism.html", "cli.html"} <= locations


@pytest.mark.slow
def test_the_search_finds_a_page_without_a_server(site, tmp_path):
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not installed")
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000",
        "--dump-dom", f"file://{site / 'index.html'}?q=rejection+sampling",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "glossary.html" in "".join(re.findall(r"md-search-result.*", done.stdout, re.DOTALL))
