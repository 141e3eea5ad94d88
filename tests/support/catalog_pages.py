"""Parse the pages of a catalog, and check their links."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

VOID = {"meta", "link", "input", "br", "img", "hr"}


@dataclass
class ParsedPage(HTMLParser):
    """Links, ids, elements and text of a page."""

    links: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    elements: list[str] = field(default_factory=list)
    attributes: set[str] = field(default_factory=set)
    text: str = ""

    def __post_init__(self):
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name in ("href", "src", "xlink:href", "action"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value)

    def handle_data(self, data):
        self.text += data


def parse(data: bytes) -> ParsedPage:
    """Parse the bytes of a page."""
    page = ParsedPage()
    page.feed(data.decode())
    return page


def pages_of(site: Path) -> dict[Path, ParsedPage]:
    """Parse all pages of a catalog, except copied reports."""
    paths = [site / "index.html", *sorted((site / "artifacts").glob("*.html"))]
    return {path: parse(path.read_bytes()) for path in paths}


def broken_links(site: Path) -> list[str]:
    """Return every link of a page that leaves the catalog or has no target in it."""
    pages, broken = pages_of(site), []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if link == "data:,":
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            inside = target.is_relative_to(site.resolve()) or target == path
            if parts.scheme or parts.netloc or not inside or not target.is_file():
                broken.append(f"{path.name}: {link}")
            elif parts.fragment and target in pages and parts.fragment not in pages[target].ids:
                broken.append(f"{path.name}: no element {link}")
    return broken


def search_index(site: Path) -> list[dict]:
    """Return the search index of a catalog."""
    text = (site / "index.js").read_text(encoding="ascii")
    assert text.startswith("window.CATALOG=")
    return json.loads(text.removeprefix("window.CATALOG=").rstrip().rstrip(";"))
