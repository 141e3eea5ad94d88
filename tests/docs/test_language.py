"""Code and documentation use the terms of the glossary and none of the old private words."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("gsx", "cli", "pipeline", "stages", "storage", "experiments", "bench")
PAGES = [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
OLD_WORDS = re.compile(
    r"\b(told|tells|said|seen|sight|mend|meant|beside|as many|so many|crew|workshop|chemist|lesson"
    r"|sheets?|surroundings|whoever|whatever)\b",
    re.IGNORECASE,
)
SAY = re.compile(r'"""(?:Say|Tell) ')
STORED_WORDS = {"bench/share.py", "stages/train/node_data.py"}
"""Files with an old word in a key of recorded results, or in the name of a random stream."""


def modules():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


def test_modules_are_found():
    assert len(list(modules())) > 300


@pytest.mark.parametrize("folder", FOLDERS)
def test_code_uses_none_of_the_old_words(folder):
    matches = []
    for path in modules():
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(f"{folder}/") or name in STORED_WORDS:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if OLD_WORDS.search(line) or SAY.search(line):
                matches.append(f"{name}:{number}: {line.strip()}")
    assert matches == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_none_of_the_old_words(page):
    lines = page.read_text().splitlines()
    assert [line for line in lines if OLD_WORDS.search(line)] == []


def test_every_exemption_is_needed():
    for name in STORED_WORDS:
        assert OLD_WORDS.search((ROOT / name).read_text()), name
