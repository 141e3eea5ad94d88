"""The table of all baselines, from result files written by these tests."""

import json

import pytest

from experiments.analysis.baseline_comparison import comparison
from experiments.suite import load_suite

PUBLISHED = """table,method,dataset,metric,split,mean,std
a,ERM,motif-size,accuracy %,ood,51.74,2.27
a,LISA,motif-size,accuracy %,ood,53.68,2.65
a,LiSA,motif-size,accuracy %,ood,52.67,2.77
a,DropEdge,cbas-color,accuracy %,ood,77.62,3.37
a,Deep Coral,dd-size,MCC,ood,0.11,0.15
"""


def write_results(folder, dataset, method, scores, metric="accuracy"):
    (folder / dataset).mkdir(parents=True, exist_ok=True)
    for seed, score in enumerate(scores):
        run = {"dataset": dataset, "method": method, "seed": seed, "metric": metric}
        path = folder / dataset / f"{method}-{seed}.json"
        path.write_text(json.dumps({**run, "ood_test": score}))


@pytest.fixture
def text(tmp_path):
    published = tmp_path / "published.csv"
    published.write_text(PUBLISHED)
    folder = tmp_path / "field"
    write_results(folder, "motif-size", "erm", [50.0, 52.0, 54.0])
    write_results(folder, "motif-size", "lisa", [40.0, 44.0])
    write_results(folder, "motif-size", "g-splice-x", [88.0, 89.0, 90.0])
    write_results(folder, "dd-size", "erm", [-0.2], "mcc")
    write_results(folder, "dd-size", "coral", [-0.1], "mcc")
    write_results(folder, "cbas-color", "mask-feature", [80.0])
    write_results(folder, "cbas-color", "featx", [80.02])
    return comparison(folder, published)


def row(text, name):
    (line,) = (line for line in text.splitlines() if f"`{name}` |" in line)
    return [cell.strip() for cell in line.split("|")[2:-1]]


COLUMNS = ["motif-size", "motif-base", "nci1-size", "dd-size", "cbas-color", "webkb-university"]


def test_every_method_is_one_row_in_its_group(text):
    lines = text.splitlines()
    heads = ["motif-size<br>accuracy", "motif-base<br>", "nci1-size<br>", "dd-size<br>mcc"]
    heads += ["cbas-color<br>accuracy", "webkb-university<br>"]
    assert lines[2] == f"| method | {' | '.join(heads)} |"
    assert lines[3] == "|---" * 7 + "|"
    rows = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]
    groups = [number for number, name in enumerate(rows) if name.startswith("**")]
    assert [rows[number] for number in groups] == [
        "**Algorithms**",
        "**Augmentations**",
        "**Ours**",
    ]
    assert rows[groups[1] + 1 : groups[2]] == [
        "DropNode `drop-node`",
        "DropEdge `drop-edge`",
        "MaskFeature `mask-feature`",
        "G-Mixup `g-mixup`",
    ]
    named = [name.split("`")[1] for name in rows if "`" in name]
    assert named == list(load_suite("baselines").methods)


def test_published_scores_are_below_measured_ones_of_the_same_method(text):
    assert row(text, "erm")[0] == "52.0 ± 2.0 (3)<br>*51.7 ± 2.3*"
    assert row(text, "lisa")[0] == "42.0 ± 2.8 (2)<br>*53.7 ± 2.6*"
    # No result yet, and not the published score of LISA.
    assert row(text, "lisa-subgraph")[0] == "*52.7 ± 2.8*"
    assert row(text, "vrex")[0] == ""


def test_the_best_measured_score_is_bold_also_below_zero_and_in_ties(text):
    assert row(text, "g-splice-x")[0] == "**89.0 ± 1.0 (3)**"
    assert row(text, "coral")[3] == "**-0.100 (1)**<br>*0.110 ± 0.150*"
    assert row(text, "erm")[3] == "-0.200 (1)"
    assert row(text, "mask-feature")[4] == "**80.0 (1)**"
    assert row(text, "featx")[4] == "**80.0 (1)**"


def test_methods_that_do_not_apply_are_marked_and_listed(text):
    assert row(text, "drop-edge")[4] == "*77.6 ± 3.4*"
    assert row(text, "drop-node")[4] == "n/a"
    assert row(text, "eerm")[:5] == ["n/a"] * 4 + [""]
    assert text.splitlines()[-3:] == [
        "- Algorithms, not applicable: `dir`, `gil`, `ciga`, `lisa-subgraph` (cbas-color, "
        "webkb-university); `eerm`, `srgnn` (motif-size, motif-base, nci1-size, dd-size).",
        "- Augmentations, not applicable: `drop-node`, `g-mixup` (cbas-color, webkb-university).",
        "- Ours, not applicable: `g-splice`, `g-splice+r`, `g-splice-x` (cbas-color, "
        "webkb-university); `featx` (motif-size, motif-base); `g-splice+featx` (motif-size, "
        "motif-base, cbas-color, webkb-university).",
    ]


def test_missing_runs_are_counted(text, tmp_path):
    planned = len(list(load_suite("baselines").runs()))
    assert text.splitlines()[0] == f"12 of {planned} runs are finished."
    empty = comparison(tmp_path / "none", tmp_path / "published.csv")
    assert empty == "No results yet. Run `make experiments SUITE=baselines`."
