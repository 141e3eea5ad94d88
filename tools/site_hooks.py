"""Hooks of MkDocs: add the pages and files outside of docs/ that pages link to.

Pages in ``docs/`` link to files of the repository by relative paths, so that links work there, too.
The site holds a copy of each linked file and needs no repository. Links to code and folders become
plain text.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages at the root of the repository."""
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages at the root and the examples."""
    for name in PAGES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    for path in sorted((ROOT / "examples").iterdir()):
        if path.is_file() and path.suffix != ".ipynb":
            content = path.read_bytes()
            files.append(File.generated(config, f"examples/{path.name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at copies in the site, and remove links to what the site does not hold."""
    source = page.file.src_uri
    # Where the page is in the repository: pages at the root were moved into docs/.
    folder = "" if source in PAGES else posixpath.dirname(posixpath.join("docs", source))

    def replace(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        inside = posixpath.normpath(posixpath.join(folder, path))
        found = inside.removeprefix("docs/")
        if found == "README.md":
            found = "index.md"
        if files.get_file_from_path(found) is None:
            return words
        new = os.path.relpath(found, posixpath.dirname(source) or ".")
        return f"[{words}]({new}{'#' + anchor if anchor else ''})"

    return LINK.sub(replace, COMMENT.sub("", markdown))
