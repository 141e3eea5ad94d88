"""The README runs as printed, links resolve, and quoted figures equal the stored measurements.

A figure that comes from a result file is followed by a comment that names its source::

    25.7<!-- bench/results/splice.json: ratio -->
    44.5<!-- results/motif-size/erm-?.json: mean ood_test -->
    0.64<!-- bench/results/scale.json: overhead.waiting * 100 --> %
    65.6<!-- results/published.csv: G-Splice+R, hiv-size -->

The comment holds a path, an optional ``mean``, ``std``, ``min`` or ``max`` over all files that
match the path, a dotted key, and an optional factor (``* 100``) or reciprocal (``1e9 / key``). The
figure may be rounded to any number of digits. A paragraph with figures that no file holds carries
``<!-- not stored: REASON -->``; settings are written as code and need no source.
"""

import csv
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").exists())
README = (ROOT / "README.md").read_text()
RUNNABLE = ["README.md", "docs/api.md", "docs/usage.md"]
"""Pages whose blocks run in order in one empty directory."""

PAGES = [
    ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
] + [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name != "cli.md"]
MEASURED = [
    "README.md",
    *(f"docs/{name}.md" for name in ("benchmarks", "results", "scale", "paper-map")),
]
"""Pages on which every decimal number and every cell of a column `figure` needs a source."""

SOURCE = r"<!-- ((?:bench/)?results/[^:>]+?\.(?:json|csv)): (.+?) -->"
FIGURE = re.compile(r"([-\u2212]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?)" + SOURCE)
GENERATED = re.compile(
    r"<!-- (?:results: [^>]+|differences: [^>]+|field|baselines|selection rules) -->\n"
    r".*?<!-- end -->",
    flags=re.S,
)


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


def code_blocks(name):
    """Return the code blocks of a page with their languages."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / name).read_text(), flags=re.M | re.S)


def comparable(text):
    """Return a command's output without times and keys: weights of networks vary between CPUs."""
    text = re.sub(r"\b\d+\.\d s\b", "N s", text)
    return re.sub(r"\b[0-9a-f]{12,64}\b", "KEY", text).strip()


def commands_of(block):
    """Yield every command of a console block with the output printed below it."""
    for entry in re.split(r"^\$ ", block, flags=re.M)[1:]:
        command, _, output = entry.partition("\n")
        yield command, output


@pytest.mark.parametrize("name", RUNNABLE)
def test_every_block_has_a_language_the_test_knows(name):
    assert {language for language, _ in code_blocks(name)} <= {"sh", "console", "python"}


def test_make_commands_are_targets():
    makefile = (ROOT / "Makefile").read_text()
    for line in dict(code_blocks("README.md"))["sh"].strip().splitlines():
        words = line.split("#")[0].split()
        assert words[0] == "make"
        assert re.search(rf"^{words[1]}:.*##", makefile, flags=re.M)


@pytest.mark.parametrize("name", RUNNABLE)
def test_consoles_print_what_is_shown_and_python_runs(name, tmp_path):
    for language, body in code_blocks(name):
        if language == "console":
            for command, output in commands_of(body):
                result = shell(command, tmp_path)
                assert comparable(result.stdout + result.stderr) == comparable(output)
        elif language == "python":
            result = subprocess.run(
                [sys.executable, "-c", body],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert result.returncode == 0, result.stderr


def test_examples_of_contributing_run():
    for body in [body for language, body in code_blocks("CONTRIBUTING.md") if language == "python"]:
        exec(compile(body, "CONTRIBUTING.md", "exec"), {"__name__": "example"})


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 160


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"
    for image in re.findall(r'src(?:set)?="([^":]+)"', page.read_text()):
        assert (page.parent / image).exists(), f"{page.name}: {image}"


CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md"]
FOLDERS = "bench|cli|docs|examples|experiments|gsx|pipeline|results|stages|storage|tests"


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.name)
def test_paths_in_code_spans_exist(page):
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./+-]*)`", page.read_text()):
        assert (ROOT / path).exists(), f"{page.name}: {path}"


def lookup(document, keys):
    """Return the value at a dotted path; a key may itself contain dots."""
    if not keys:
        return document
    if isinstance(document, list):
        return lookup(document[int(keys[0])], keys[1:])
    for end in range(1, len(keys) + 1):
        key = ".".join(keys[:end])
        if key in document:
            return lookup(document[key], keys[end:])
    raise KeyError(".".join(keys))


def published_values(expression):
    """Return the published scores of ``METHOD, DATASET`` (OOD) or ``METHOD, DATASET, id``.

    ``std METHOD, DATASET`` stands for the standard deviations.
    """
    column = "std" if expression.startswith("std ") else "mean"
    method, dataset, *split = expression.removeprefix("std ").split(", ")
    rows = csv.DictReader((ROOT / "results" / "published.csv").read_text().splitlines())
    return [
        float(row[column])
        for row in rows
        if (row["method"], row["dataset"], row["split"]) == (method, dataset, *(split or ["ood"]))
    ]


def stored_values(path, expression):
    """Return the values a source comment may stand for: one, or several published ones."""
    if path.endswith(".csv"):
        values = published_values(expression)
        assert values, f"{path} has no row for {expression}"
        return values
    files = sorted(file for file in ROOT.glob(path))
    assert files, f"{path} matches no file"
    expression, _, factor = expression.partition(" * ")
    dividend = re.match(r"([\d.e]+) / ", expression)
    expression = expression.removeprefix(dividend[0] if dividend else "")
    statistic, _, key = expression.partition(" ")
    if statistic not in ("mean", "std", "min", "max"):
        statistic, key = "", expression
        assert len(files) == 1, f"{path} matches {len(files)} files: name mean, std, min or max"
    values = [lookup(json.loads(file.read_text()), key.split(".")) for file in files]
    reduce = {"mean": statistics.mean, "std": statistics.stdev, "min": min, "max": max, "": min}
    value = reduce[statistic](values)
    return [(float(dividend[1]) / value if dividend else value) * float(factor or 1)]


def agrees(text, value):
    """Return whether a printed number is ``value``, rounded to the digits that are printed."""
    digits = text.replace(",", "").replace("\u2212", "-")
    whole, _, fraction = digits.partition(".")
    zeros = len(whole) - len(whole.rstrip("0")) if not fraction else 0
    unit = 10.0 ** (zeros - len(fraction))
    return abs(float(digits) - value) <= unit / 2 + 1e-9 * max(1.0, abs(value))


def test_rounded_figures_agree_and_others_do_not():
    assert agrees("25.7", 25.74)
    assert agrees("125,800", 125756)
    assert agrees(".85", 0.852)
    assert not agrees("25.7", 25.76)
    assert not agrees("7,486", 11269)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_are_those_of_their_sources(page):
    text = page.read_text()
    wrong = []
    for figure, path, expression in FIGURE.findall(text):
        values = stored_values(path, expression)
        if not figure or not any(agrees(figure, value) for value in values):
            wrong.append(f"{figure!r} is {values} in {path}: {expression}")
    assert not wrong, "\n".join(wrong)


def blocks_of(text):
    """Yield paragraphs and list items without code, generated tables and sourced figures."""
    text = GENERATED.sub("", text)
    text = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n|\n(?=- |\* |\d+\. )", text):
        if "<!-- not stored: " in paragraph:
            continue
        paragraph = FIGURE.sub("", paragraph)
        yield re.sub(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->", "", paragraph, flags=re.S)


@pytest.mark.parametrize("name", MEASURED)
def test_every_decimal_figure_has_a_source(name):
    found = [
        f"{number} in: {' '.join(block.split())[:120]}"
        for block in blocks_of((ROOT / name).read_text())
        for number in re.findall(r"(?<![\w.,])(?<!Python )\d*\.\d+(?![\w.]*\d)", block)
    ]
    assert not found, "name a source, or mark the paragraph `not stored`:\n" + "\n".join(found)


def figure_cells(text):
    """Yield the cells of table columns whose heading is `figure` or starts with `gsx`."""
    for table in re.findall(r"(?:^\|.*\|\n)+", text, flags=re.M):
        header, _, *rows = (
            [cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()
        )
        for number, heading in enumerate(header):
            if heading == "figure":
                yield from (row[number] for row in rows)


@pytest.mark.parametrize("name", MEASURED)
def test_every_figure_column_has_sources(name):
    for cell in figure_cells((ROOT / name).read_text()):
        assert not re.search(r"\d", FIGURE.sub("", cell)), f"{name}: no source for `{cell}`"


@pytest.mark.parametrize(("script", "picture"), [("results", "results"), ("forest", "recommended")])
def test_a_results_figure_is_up_to_date(script, picture):
    drawn = subprocess.run(
        [sys.executable, ROOT / "docs" / "figures" / f"{script}.py", "--stdout"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert drawn.stdout == (ROOT / "docs" / "figures" / f"{picture}.svg").read_text(), (
        f"run `python docs/figures/{script}.py`"
    )
